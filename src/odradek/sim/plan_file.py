"""A plan in a file: JSON, with the version of its shape. It runs as it was written, also where its seed draws another one by now.

A file that cannot be run is refused before anything runs, with what was found and what would have worked: one of another version, a
fault that nobody knows (any more), and a world that no machine would finish.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any, get_type_hints

from odradek.model.errors import ConfigurationError, OdradekError
from odradek.model.features import HIGHEST_LEVELS, TRANSACTION_VERSION
from odradek.model.settings import BrokerSettings, TopicSettings, attribute_name
from odradek.model.settings_unserved import check_served
from odradek.sim.plan import ALL_KINDS, ASSIGNORS, CODECS, LEDGER_OWNERS, TOPICS, Fault, Plan

# Rises with every change after which an older file would mean something else.
VERSION = 1
VERSION_FIELD = "plan_version"
# field -> the least and the most: of the most, all at once, a run is minutes of one core, and a gigabyte.
LIMITS: dict[str, tuple[float, float]] = {
    "brokers": (1, 20),
    "partitions": (1, 200),
    "replication_factor": (1, 20),
    "min_insync_replicas": (1, 20),
    "producers": (1, 50),
    "acks": (-1, 1),
    "records_per_batch": (1, 1_000),
    "pause_between_sends_s": (0.001, 60.0),
    "duration_s": (0.1, 600.0),
    "in_flight": (1, 5),
    "bumping_owners": (0, LEDGER_OWNERS),
    "first_level": (0, HIGHEST_LEVELS[TRANSACTION_VERSION]),
    "topic_count": (1, len(TOPICS)),
    "fetch_bytes": (1, 1 << 20),
}
FAULT_LIMITS: dict[str, tuple[float, float]] = {
    "at_s": (0.0, LIMITS["duration_s"][1]),
    "target": (0.0, 1.0),
    "amount": (0.0, 1.0),
    "lasts_s": (0.0, LIMITS["duration_s"][1]),
}
# Settings that a world gives each of its brokers, or that name what is outside of it.
OF_THE_WORLD = frozenset(
    {
        "broker.id", "node.id", "broker.rack", "listeners", "advertised.listeners", "log.dir", "log.dirs",
        "odradek.cluster.size", "odradek.journal.dir", "odradek.metrics.listener",
    }
)  # fmt: skip
# Partitions of internal topics, which may be as many as those of the others.
INTERNAL_PARTITIONS = ("offsets.topic.num.partitions", "transaction.state.log.num.partitions")
MOST_FAULTS = 10_000
MOST_BYTES = 4 << 20


class Unusable(OdradekError):
    """This file is no plan that can be run. The message is for whoever wrote the file."""


def write(plan: Plan, path: Path) -> None:
    told = asdict(plan) | {"faults": [fault._asdict() for fault in plan.faults]}
    path.write_text(json.dumps({VERSION_FIELD: VERSION, **told}, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Plan:
    """Raises `Unusable`."""
    if path.stat().st_size > MOST_BYTES:
        raise Unusable(f"it has more than {MOST_BYTES >> 20} MiB")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise Unusable(f"it is no JSON: {error}") from error
    if not isinstance(found, dict) or VERSION_FIELD not in found:
        raise Unusable(f"it is no plan: an object with {VERSION_FIELD!r} is wanted, as --save-plan writes it")
    version = found.pop(VERSION_FIELD)
    if version != VERSION or isinstance(version, bool):
        raise Unusable(
            f"it is of version {version!r}, and this program reads {VERSION}; "
            "run it with the program that wrote it, or write it anew with --seed N --save-plan FILE"
        )
    return _plan(found)


def _plan(found: dict[str, Any]) -> Plan:
    known = {field.name: field for field in fields(Plan)}
    required = {name for name, f in known.items() if f.default is MISSING and f.default_factory is MISSING}
    _same_names("the plan", found, known=set(known), required=required)
    hints = get_type_hints(Plan)
    values = {name: found[name] for name in known if name in found}
    for name, value in values.items():
        if name != "faults":
            _checked(name, value, hints[name], LIMITS)
    faults = values["faults"]
    if not isinstance(faults, list) or len(faults) > MOST_FAULTS:
        raise Unusable(f"'faults': a list of at most {MOST_FAULTS} is wanted")
    values["faults"] = tuple(_fault(number, fault) for number, fault in enumerate(faults))
    plan = Plan(**values)
    if plan.codec not in CODECS:
        raise Unusable(f"'codec': {plan.codec!r} is none of {', '.join(CODECS)}")
    if plan.mixed_group and plan.mixed_group not in ASSIGNORS:
        raise Unusable(
            f"'mixed_group': {plan.mixed_group!r:.80} is none of {', '.join(ASSIGNORS)}, and not empty"
        )
    if not plan.min_insync_replicas <= plan.replication_factor <= plan.brokers:
        raise Unusable(
            f"{plan.brokers} brokers, 'replication_factor' {plan.replication_factor}, 'min_insync_replicas' "
            f"{plan.min_insync_replicas}: each is to be no larger than the one before"
        )
    _check_settings(plan)
    return plan


def _check_settings(plan: Plan) -> None:
    for name in sorted(OF_THE_WORLD & plan.settings.keys()):
        raise Unusable(f"'settings': {name} is the world's own; leave it out")
    try:
        settings = BrokerSettings(plan.settings)
        check_served(settings)
        for of_topic in (plan.states, plan.ledger):
            TopicSettings(settings, of_topic)
    except ConfigurationError as error:
        raise Unusable(f"'settings', 'states' or 'ledger': {error}") from error
    for name in INTERNAL_PARTITIONS:
        _checked(name, getattr(settings, attribute_name(name)), int, {name: LIMITS["partitions"]})


def _fault(number: int, found: object) -> Fault:
    where = f"fault {number}"
    if not isinstance(found, dict):
        raise Unusable(f"{where}: an object is wanted, found {found!r:.80}")
    _same_names(where, found, known=set(Fault._fields), required=set(Fault._fields))
    for name, kind in get_type_hints(Fault).items():
        _checked(f"{where}: {name}", found[name], kind, FAULT_LIMITS)
    if found["kind"] not in ALL_KINDS:
        raise Unusable(
            f"{where}: there is no kind {found['kind']!r:.80} of fault; docs/simulator.md lists all"
        )
    for name in ("target", "amount"):
        if found[name] >= 1.0:  # they pick one of several
            raise Unusable(f"{where}: {name}: {found[name]} is not below 1")
    return Fault(**found)


def _same_names(where: str, found: Mapping[str, object], *, known: set[str], required: set[str]) -> None:
    for name in sorted(found.keys() - known):
        raise Unusable(f"{where} has {name!r:.80}, which nobody knows; known: {', '.join(sorted(known))}")
    for name in sorted(required - found.keys()):
        raise Unusable(f"{where} lacks {name!r}")


def _checked(name: str, value: object, kind: Any, limits: Mapping[str, tuple[float, float]]) -> None:
    if kind == dict[str, str]:
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            raise Unusable(f"{name!r}: an object of strings is wanted, found {value!r:.80}")
        return
    wanted = (int, float) if kind is float else kind
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        raise Unusable(f"{name!r}: {kind.__name__} is wanted, found {value!r:.80}")
    least, most = limits.get(name.rpartition(" ")[2], (None, None))
    if least is not None and most is not None and not least <= value <= most:
        raise Unusable(f"{name!r}: {value} is not within {least:g} to {most:g}")
