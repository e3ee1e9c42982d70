"""Jobs in TOML: a `[[tables]]` or a `[[transform]]` each, with the options of the verb as keys, dashes as on the command line.

bootstrap = "127.0.0.1:9092"        # of all that name none of their own; so are cores, memory, master and archive

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
from odradek.spark.jobs import tables, transform
from odradek.spark.jobs.tables import TablesJob
from odradek.spark.jobs.transform import TransformJob
from odradek.spark.places import absolute, is_in_store


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
    "upsert-by": _Key("upsert_by", str),
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
    "dead-letters-topic": _Key("dead_letters_topic", str),
    "partition-by": _Key("partition_by", str),
    "target-file-size": _Key("target_file_size", str),
    "sort-by": _Key("sort_by", str),
    "evolve": _Key("evolve", str),
    "cores": _Key("cores", str),
    "memory": _Key("memory", str),
    "master": _Key("master", str),
    "archive": _Key("archive", str),
}
_OF_TOPICS = {
    name: _KEYS[name]
    for name in (
        *("bootstrap", "topic", "trigger", "once", "starting-offsets", "max-offsets-per-trigger"),
        *("allow-data-loss", "app-id", "commit-group", "cores", "memory", "master", "archive"),
        *("format", "schema", "registry", "schema-file", "message", "subject", "framed"),
        *("on-error", "max-dead-letters", "dead-letters-topic"),
    )
} | {
    "to": _Key("to", str),
    "directory": _Key("directory", str),
    "sql": _Key("sql", str),
    "compression": _Key("compression", str),
}
_OF_ALL = ("bootstrap", "cores", "memory", "master", "archive")  # one session has one of the last four


class _Kind(NamedTuple):
    job: type[TablesJob] | type[TransformJob]
    keys: dict[str, _Key]
    needed: tuple[str, ...]
    target: str  # the key that says what is written


_KINDS = {
    "tables": _Kind(TablesJob, _KEYS, ("bootstrap", "topic", "table"), "table"),
    "transform": _Kind(TransformJob, _OF_TOPICS, ("bootstrap", "topic", "to", "directory"), "directory"),
}


class _Place(NamedTuple):
    """Where a job stands: of its kind the n-th, from 1; n = 0 is what stands above all jobs."""

    file: Path
    text: str
    kind: str = ""
    number: int = 0


def plans_of(file: Path, *, is_once: bool = False) -> list[tables.Planned]:
    """The jobs of a file, with what their clusters say of them. `is_once`: each ends with what is there now.

    ConfigurationError names the file, the line, and what would work."""
    plans: list[tables.Planned] = []
    for job, place in _placed(file):
        ending = job._replace(is_once=job.is_once or is_once)
        try:
            plans.append(
                transform.planned(ending) if isinstance(ending, TransformJob) else tables.planned(ending)
            )
        except ConfigurationError as error:
            raise _wrong_of(place, error) from None
    return plans


def jobs_of(file: Path) -> list[TablesJob | TransformJob]:
    """ConfigurationError names the file, the line, and what would work."""
    return [job for job, _ in _placed(file)]


def _placed(file: Path) -> list[tuple[TablesJob | TransformJob, _Place]]:
    data = file.read_bytes()
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{file}, line {line}: expected text in UTF-8") from None
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file}: {error}") from None
    given = {kind: found.pop(kind) for kind in _KINDS if kind in found}
    for key in found:
        if key not in _OF_ALL:
            kinds = " and ".join(f"[[{kind}]]" for kind in _KINDS)
            guess = nearest(key, dict.fromkeys((*_OF_ALL, *_KINDS)))
            hint = f"did you mean {guess}?" if guess else f"there are {', '.join(_OF_ALL)}, {kinds}"
            why = f"no key {key} of all jobs; {hint}"
            raise _wrong(_Place(file, text), key, why)
    if not given or not all(jobs and _are_tables(jobs) for jobs in given.values()):
        raise ConfigurationError(f"{file}: there is no job in it, as in [[tables]]")
    read: list[tuple[TablesJob | TransformJob, _Place]] = []
    written: set[str] = set()
    for kind, jobs in given.items():
        for number, own in enumerate(jobs, start=1):
            place = _Place(file, text, kind, number)
            read.append((_job(place, {**found, **own}, own), place))
            key = _KINDS[kind].target
            target = absolute(own[key]) if is_in_store(own[key]) else str(Path(own[key]).resolve())
            if target in written:
                raise _wrong(place, key, f"{key} {target} is that of another job of this file")
            written.add(target)
    return read


def _are_tables(jobs: Any) -> bool:
    return isinstance(jobs, list) and all(isinstance(job, dict) for job in jobs)


def _job(place: _Place, given: dict[str, Any], own: dict[str, Any]) -> TablesJob | TransformJob:
    kind = _KINDS[place.kind]
    values: dict[str, Any] = {}
    for name, value in given.items():
        key = kind.keys.get(name)
        if key is None:
            guess = nearest(name, kind.keys)
            hint = f"did you mean {guess}?" if guess else f"there are {', '.join(kind.keys)}"
            raise _wrong(place, name, f"no key {name}; {hint}")
        if name in own and name in _OF_ALL[1:]:
            raise _wrong(place, name, f"{name} stands above the jobs: they share one session")
        if not isinstance(value, key.kind) or (key.kind is int and isinstance(value, bool)):
            kinds = {str: "a text in quotes", bool: "true or false", int: "a whole number"}
            raise _wrong(place, name, f"{name} = {value!r}: expected {kinds[key.kind]}")
        values[key.field] = value
    for name in kind.needed:
        if name not in given:
            raise _wrong(place, "", f"{name} is missing")
    values["topics"] = tuple(topic.strip() for topic in values["topics"].split(","))
    if "fails_on_data_loss" in values:
        values["fails_on_data_loss"] = not values["fails_on_data_loss"]
    try:
        return kind.job(**values).check()
    except ConfigurationError as error:
        raise _wrong_of(place, error) from None


def _wrong_of(place: _Place, error: ConfigurationError) -> ConfigurationError:
    """An option begins the sentence, with dashes or without."""
    option = re.match(r"(?:--)?([\w-]+)", str(error))
    return _wrong(place, option[1] if option else "", str(error))


def _wrong(place: _Place, key: str, why: str) -> ConfigurationError:
    job, line_of_job, is_inside = 0, 1, place.number == 0
    for line, content in enumerate(place.text.splitlines(), start=1):
        if place.number == 0 and re.match(rf"\s*\[\[?\s*{re.escape(key)}\s*\]", content):
            return ConfigurationError(f"{place.file}, line {line}: {why}")
        if begun := re.match(r"\s*\[\[\s*(\w+)\s*\]\]", content):
            job += begun[1] == place.kind
            is_inside = begun[1] == place.kind and job == place.number
            if is_inside:
                line_of_job = line
        elif is_inside and key and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", content):
            return ConfigurationError(f"{place.file}, line {line}: {why}")
    return ConfigurationError(f"{place.file}, line {line_of_job}: {why}")
