"""The JSON of reassignments, as Apache's ReassignPartitionsCommand writes and reads it.

    {"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}

and the list of topics its --generate takes: {"version":1,"topics":[{"topic":"orders"}]}.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.cli.output import fail
from odradek.cli.standard_streams import standard_input

if TYPE_CHECKING:
    from odradek.model.ids import BrokerId, TopicPartition

VERSION = 1
WANT = 'expected {"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2]}]}'
WANT_TOPICS = 'expected {"version":1,"topics":[{"topic":"orders"}]}'


def proposal(targets: "Mapping[TopicPartition, Sequence[int]]") -> dict[str, Any]:
    return {
        "version": VERSION,
        "partitions": [
            {
                "topic": where.topic,
                "partition": where.partition,
                "replicas": list(replicas),
                "log_dirs": ["any"] * len(replicas),
            }
            for where, replicas in sorted(targets.items())
        ],
    }


def write_proposal(file: Path, targets: "Mapping[TopicPartition, Sequence[int]]") -> None:
    file.write_text(_text(targets), encoding="utf-8")


def _text(targets: "Mapping[TopicPartition, Sequence[int]]") -> str:
    return json.dumps(proposal(targets), indent=1) + "\n"


def write_way_back(file: Path, before: "Mapping[TopicPartition, Sequence[int]]", *, plan: Path) -> None:
    """Never over anything: after a second `apply` the replicas of now are those of the first one's target, and the only
    record of where they came from would be gone."""
    if file.resolve() == plan.resolve():
        fail(f"{file} is the plan itself; the way back needs a file of its own")
    check_way_back(file, before, "nothing was started")
    write_proposal(file, before)


def check_way_back(file: Path, before: "Mapping[TopicPartition, Sequence[int]]", otherwise: str) -> None:
    """`otherwise`: what has not been done, where another way back is in that file."""
    if file.exists() and file.read_bytes() != _text(before).encode():
        fail(
            f"{file} is there already, and may be the way back of an earlier run; name another file for the way back, "
            f"or remove it; {otherwise}"
        )


def read_proposal(
    file: Path, directories: "dict[tuple[TopicPartition, int], str] | None" = None
) -> "dict[TopicPartition, tuple[BrokerId, ...]]":
    """`-` is standard input. Anything that is not what it must be is one sentence with its place. `directories` is
    filled with those of `log_dirs` that are not "any", by partition and broker.
    """
    from odradek.model.ids import BrokerId, TopicPartition

    targets: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    for number, entry in enumerate(_list(file, "partitions", WANT)):
        where = f"{_name(file)}, partitions[{number}]"
        if not isinstance(entry, dict) or not {"topic", "partition", "replicas"} <= set(entry):
            fail(f"{where}: {WANT}")
        topic, partition, replicas = entry["topic"], entry["partition"], entry["replicas"]
        if not isinstance(topic, str) or not topic or not _fits(partition) or partition < 0:
            fail(
                f"{where}: topic must be a name and partition a number from 0; found {topic!r}, {partition!r}"
            )
        if not isinstance(replicas, list) or not replicas or not all(_fits(b) for b in replicas):
            fail(f"{where}: replicas must be broker ids, the preferred leader first; found {replicas!r}")
        log_dirs = entry.get("log_dirs", [])
        if not isinstance(log_dirs, list) or (log_dirs and len(log_dirs) != len(replicas)):
            fail(f"{where}: log_dirs must be as long as replicas, or left out")
        if not all(isinstance(path, str) and (path == "any" or path.startswith("/")) for path in log_dirs):
            fail(f'{where}: each of log_dirs must be "any" or an absolute path; found {log_dirs!r}')
        key = TopicPartition(topic, partition)
        if key in targets:
            fail(f"{where}: {key} stands there twice")
        targets[key] = tuple(BrokerId(broker) for broker in replicas)
        if directories is not None:
            directories |= {
                (key, broker): path for broker, path in zip(replicas, log_dirs, strict=False) if path != "any"
            }
    if not targets:
        fail(f"{_name(file)} moves nothing: its list of partitions is empty")
    return targets


def read_topics(file: Path) -> list[str]:
    names = []
    for number, entry in enumerate(_list(file, "topics", WANT_TOPICS)):
        if not isinstance(entry, dict) or not isinstance(entry.get("topic"), str):
            fail(f"{_name(file)}, topics[{number}]: {WANT_TOPICS}")
        names.append(entry["topic"])
    return names


def _list(file: Path, key: str, want: str) -> list[Any]:
    try:
        value = json.loads(standard_input(key).read() if str(file) == "-" else file.read_bytes())
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else error
        fail(f"{_name(file)} is not JSON ({why}); {want}")
    if not isinstance(value, dict) or not isinstance(value.get(key), list):
        fail(f"{_name(file)}: {want}")
    if value.get("version", VERSION) != VERSION:
        fail(f"{_name(file)} has version {value['version']!r}; only version {VERSION} is known")
    found: list[Any] = value[key]
    return found


def _name(file: Path) -> str:
    return "standard input" if str(file) == "-" else str(file)


def _fits(value: Any) -> bool:
    """A number of a partition or a broker, as far as the wire has room for it. Whether it can be is the controller's
    to say."""
    from odradek.model.ids import INT32_MAX

    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INT32_MAX
