"""Jobs in TOML: a `[[tables]]` each, with the options of `odradek spark tables` as keys, dashes as on the command line.

bootstrap = "127.0.0.1:9092"        # of all that name none of their own; so are cores and memory

[[tables]]
topic = "orders"
table = "./orders"
format = "json"
"""

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from odradek.model.errors import ConfigurationError
from odradek.model.settings import nearest
from odradek.spark.jobs.tables import TablesJob


class _Key(NamedTuple):
    field: str
    kind: type


_KEYS = {
    "bootstrap": _Key("bootstrap", str),
    "topic": _Key("topics", str),
    "table": _Key("table", str),
    "format": _Key("format", str),
    "schema": _Key("schema", str),
    "meta": _Key("has_meta", bool),
    "on-error": _Key("on_error", str),
    "trigger": _Key("trigger", str),
    "once": _Key("is_once", bool),
    "starting-offsets": _Key("starting_offsets", str),
    "max-offsets-per-trigger": _Key("max_offsets_per_trigger", int),
    "allow-data-loss": _Key("fails_on_data_loss", bool),
    "app-id": _Key("app_id", str),
    "commit-group": _Key("commit_group", str),
    "checkpoint": _Key("checkpoint", str),
    "registry": _Key("registry", str),
    "schema-file": _Key("schema_file", str),
    "message": _Key("message", str),
    "subject": _Key("subject", str),
    "framed": _Key("is_framed", bool),
    "key-format": _Key("key_format", str),
    "key-schema": _Key("key_schema", str),
    "key-schema-file": _Key("key_schema_file", str),
    "key-message": _Key("key_message", str),
    "key-subject": _Key("key_subject", str),
    "from-checkpoint": _Key("from_checkpoint", str),
    "max-dead-letters": _Key("max_dead_letters", str),
    "cores": _Key("cores", str),
    "memory": _Key("memory", str),
}
_OF_ALL = ("bootstrap", "cores", "memory")  # one session has one of the last two
_NEEDED = ("bootstrap", "topic", "table")


def jobs_of(file: Path) -> list[TablesJob]:
    """ConfigurationError names the file, the line, and what would work."""
    text = file.read_text(encoding="utf-8")
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file}: {error}") from None
    jobs = found.pop("tables", None)
    for key in found:
        if key not in _OF_ALL:
            raise _wrong(
                file, text, 0, key, f"no key {key} of all jobs; there are {', '.join(_OF_ALL)} and [[tables]]"
            )
    if not isinstance(jobs, list) or not jobs:
        raise ConfigurationError(f"{file}: there is no job in it, as in [[tables]]")
    read = [_job(file, text, number, {**found, **job}, job) for number, job in enumerate(jobs, start=1)]
    of_jobs = [Path(job.table).resolve() for job in read]
    for number, table in enumerate(of_jobs, start=1):
        if table in of_jobs[: number - 1]:
            raise _wrong(file, text, number, "table", f"table {table} is that of another job of this file")
    return read


def _job(file: Path, text: str, number: int, given: dict[str, Any], own: dict[str, Any]) -> TablesJob:
    values: dict[str, Any] = {}
    for name, value in given.items():
        key = _KEYS.get(name)
        if key is None:
            guess = nearest(name, _KEYS)
            hint = f"did you mean {guess}?" if guess else f"there are {', '.join(_KEYS)}"
            raise _wrong(file, text, number, name, f"no key {name}; {hint}")
        if name in own and name in _OF_ALL[1:]:
            raise _wrong(file, text, number, name, f"{name} stands above the jobs: they share one session")
        if not isinstance(value, key.kind) or (key.kind is int and isinstance(value, bool)):
            kinds = {str: "a text in quotes", bool: "true or false", int: "a whole number"}
            raise _wrong(file, text, number, name, f"{name} = {value!r}: want {kinds[key.kind]}")
        values[key.field] = value
    for name in _NEEDED:
        if name not in given:
            raise _wrong(file, text, number, "", f"{name} is missing")
    values["topics"] = tuple(topic.strip() for topic in values["topics"].split(","))
    if "fails_on_data_loss" in values:
        values["fails_on_data_loss"] = not values["fails_on_data_loss"]
    try:
        return TablesJob(**values).check()
    except ConfigurationError as error:
        option = re.match(r"--([\w-]+)", str(error))
        raise _wrong(file, text, number, option[1] if option else "", str(error)) from None


def _wrong(file: Path, text: str, number: int, key: str, why: str) -> ConfigurationError:
    """`number` counts the jobs from 1; 0 is what stands above them."""
    job, line_of_job = 0, 1
    for line, content in enumerate(text.splitlines(), start=1):
        if re.match(r"\s*\[\[\s*tables\s*\]\]", content):
            job += 1
            if job == number:
                line_of_job = line
        elif job == number and key and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", content):
            return ConfigurationError(f"{file}, line {line}: {why}")
    return ConfigurationError(f"{file}, line {line_of_job}: {why}")
