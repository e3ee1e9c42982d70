"""What Apache's tools print against a cluster, kept command by command so that two clusters can be compared.

Ids, sizes, times and addresses are normalised.
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.interop.apache import Printed, Tools
from tests.interop.cluster import OURS, MixedCluster

LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
DUMP = "kafka.tools.DumpLogSegments"

Transcript = list[tuple[str, str]]


class Session:
    """Runs commands against one cluster and keeps what they print."""

    def __init__(self, cluster: MixedCluster, tools: Tools) -> None:
        self.cluster = cluster
        self.transcript: Transcript = []
        self._tools = tools
        self._bootstrap = cluster.running

    def tell(self, command: str, *arguments: str | int) -> Printed:
        """A command of Tools.java, which does not count."""
        printed = self._tools.run(command, self._bootstrap, *map(str, arguments))
        assert printed.code == 0, printed
        return printed

    def look(self, tool: str, *arguments: str | int, stdin: str | None = None) -> Printed:
        """Runs a command that does not count, such as one that waits."""
        words: list[str | int] = [tool, "--bootstrap-server", self._bootstrap, *arguments]
        if stdin is not None:
            words.insert(0, f"<{stdin}")
        return self._tools.run(*map(str, words))

    def run(self, tool: str, *arguments: str | int, stdin: str | None = None) -> Printed:
        printed = self.look(tool, *arguments, stdin=stdin)
        self._keep(tool, arguments, printed)
        return printed

    def run_on_files(self, tool: str, *arguments: str | int) -> Printed:
        """A tool that asks no broker."""
        printed = self._tools.run(tool, *arguments)
        self._keep(tool, arguments, printed)
        return printed

    def _keep(self, tool: str, arguments: Sequence[str | int], printed: Printed) -> None:
        named = " ".join([tool.rpartition(".")[2], *map(str, arguments)])
        self.transcript.append(
            (self.plain(named), f"exit {printed.code}\n{normalised(self.plain(printed), tool)}")
        )

    def file(self, name: str, value: object) -> str:
        """A JSON file for a tool to read."""
        path = self.cluster.directory / name
        path.write_text(json.dumps(value))
        return str(path)

    def plain(self, text: str) -> str:
        for broker in self.cluster.brokers.values():
            text = text.replace(broker.address, f"broker-{broker.broker_id}:port")
        return text.replace(str(self.cluster.directory), "DIRECTORY").replace(
            self.cluster.zookeeper.address, "zookeeper:port"
        )


# Lines of ours about settings that Apache's brokers do not have.
_OWN_SETTING = re.compile(r"^  odradek\..*\n?", re.MULTILINE)
_TOPIC_ID = re.compile(r"TopicId: \S{22}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PRODUCER_ID = re.compile(r"(\bproducerId\"?: ?)\d+")
_TIMESTAMP = re.compile(r"\b1[6-9]\d{11}\b")


def normalised(text: str, tool: str) -> str:
    text = _OWN_SETTING.sub("", text)
    text = _TIMESTAMP.sub("TIME", _TOPIC_ID.sub("TopicId: ID", text))
    # Where in a tool an error came up is the tool's matter; what it was is ours.
    text = re.sub(r"^\s+at .*\n|^\s+\.\.\. \d+ more\n", "", text, flags=re.MULTILINE)
    text = _PRODUCER_ID.sub(r"\1ID", _UUID.sub("UUID", text))
    if tool == GROUPS:
        text = "\n".join(" ".join(line.split()) for line in text.splitlines())
    if tool == TRANSACTIONS:
        text = _table(text)
    if text.startswith('{"key"'):
        text = "\n".join(sorted(re.sub(r'(?={"key")|(?=Processed)', "\n", text).splitlines()))
    if tool == DUMP:
        text = _dump(text)
    if tool == LOG_DIRS:
        text = "\n".join(_log_dirs(line) if line.startswith("{") else line for line in text.splitlines())
    return text.strip()


# Blocks of producer ids go to whoever asks first.
_OF_THE_MOMENT = ("ProducerId", "TransactionDurationMs")


def _table(text: str) -> str:
    """Columns are as wide as what stands in them; rows have no order."""
    if not text:
        return text
    head, *rows = (line.split() for line in text.splitlines())
    kept = [index for index, name in enumerate(head) if name not in _OF_THE_MOMENT]
    shown, *others = (" ".join(row[i] for i in kept if i < len(row)) for row in (head, *rows))
    return "\n".join([shown, *sorted(others)])


def _dump(text: str) -> str:
    """The partitions of one commit have no order; a batch without a producer has no sequence, whatever stands there."""
    for ours_to_choose in (r"crc: \d+", r"\w*[sS]equence: -?\d+", r"(?<=\| )offset: \d+"):
        text = re.sub(ours_to_choose, "", text)
    return "\n".join(sorted(text.splitlines()))


def _log_dirs(line: str) -> str:
    """One JSON line whose lists have no order."""
    found = json.loads(line)
    for broker in found["brokers"]:
        for directory in broker["logDirs"]:
            directory["partitions"].sort(key=lambda replica: replica["partition"])
            for replica in directory["partitions"]:
                replica["size"] = min(replica["size"], 1)
    found["brokers"].sort(key=lambda broker: broker["broker"])
    return json.dumps(found)


Chapter = Callable[[Session], None]


def transcript_of(
    kind: str, directory: Path, tools: Tools, chapters: Sequence[Chapter]
) -> dict[str, Transcript]:
    of_ours, of_apaches = ((1, 2, 3), ()) if kind == OURS else ((), (1, 2, 3))
    found: dict[str, Transcript] = {}
    with MixedCluster(directory, ours=of_ours, apaches=of_apaches, first=kind) as cluster:
        for chapter in chapters:
            session = Session(cluster, tools)
            chapter(session)
            found[chapter.__name__] = session.transcript
    return found


def differences(ours: Transcript, apaches: Transcript) -> str | None:
    """None: all commands print the same."""
    assert [command for command, _ in ours] == [command for command, _ in apaches]
    different = [
        f"$ {command}\n--- Apache's\n{theirs}\n--- ours\n{mine}"
        for (command, mine), (_, theirs) in zip(ours, apaches, strict=True)
        if mine != theirs
    ]
    return (
        f"{len(different)} of {len(ours)} commands differ\n" + "\n\n".join(different) if different else None
    )
