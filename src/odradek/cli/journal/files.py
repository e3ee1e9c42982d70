"""Journals of controllers on this machine: found by any place that leads to them, read, put in order.

A journal is `controller-<id>.jsonl` in a broker's first log directory (server/journal.py). A cluster has one
for each broker that ever was controller; together they are its history, ordered by controller epoch.
"""

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from odradek.cli.output import Failed, fail
from odradek.cli.quantities import shown_bytes
from odradek.cli.store_places import properties_in
from odradek.model.counted import counted

if TYPE_CHECKING:
    from odradek.client.sync import ClusterView, SyncClient
    from odradek.controller.context import ControllerSettings

# Read on the way to another answer: a second or two. A larger one is read where it is named.
LARGEST_READ_UNASKED = 8 << 20
PATIENCE_S = 3.0  # with a broker that does not say where its journal is
PATTERN = "controller-*.jsonl"
END_OF_TIME_MS = 253_402_300_800_000  # the year 10,000, which has no date
# The directory it is in, a broker's, or a cluster's.
PLACES = (PATTERN, f"*/{PATTERN}", f"*/*/{PATTERN}")


class TooLarge(Failed):
    """A journal that is at hand, and would take long to read on the way to another answer."""


class History(NamedTuple):
    """`lines` as replay takes them; `files` in the order of their names; `notes` say what could not be read. `properties`: those
    that led to them."""

    lines: list[dict[str, Any]]
    files: tuple[Path, ...]
    notes: tuple[str, ...]
    properties: Path | None = None


def journal_files(place: Path) -> list[Path]:
    """`place`: a journal, a directory that holds some, or a broker's properties."""
    if place.suffix == ".properties":
        from odradek.model.settings import BrokerSettings

        settings = BrokerSettings(properties_in(place))
        found = _journals_in(settings.odradek_journal_dir, settings.log_directories)
    elif place.is_dir():
        found = [file for pattern in PLACES for file in place.glob(pattern)]
    elif place.exists():
        return [place]
    else:
        fail(f"there is no {place}; name a journal, a broker's properties, or the directory of a cluster")
    return sorted(set(found))


def _journals_in(journal_dir: str | None, log_directories: Iterable[str]) -> list[Path]:
    """Where a broker with these settings keeps them."""
    places = [Path(journal_dir)] if journal_dir else [Path(d) for d in log_directories]
    return [file for directory in places for file in directory.glob(PATTERN)]


def read_history(place: Path) -> History:
    """Every line of every journal there, by controller epoch and then as written."""
    files = journal_files(place)
    if not files:
        fail(f"no journal below {place}: a broker that was controller keeps {PATTERN} in its log directory")
    clusters = {cluster: file for file in files if (cluster := _cluster_of(file.parent)) is not None}
    if len(clusters) > 1:
        where = ", ".join(f"{file} of {cluster}" for cluster, file in sorted(clusters.items()))
        fail(f"below {place} are journals of {len(clusters)} clusters; name the directory of one: {where}")
    history = _in_order(files, [])
    return history._replace(properties=place) if place.suffix == ".properties" else history


@contextmanager
def blamed_on_its_line(*histories: History) -> Iterator[None]:
    """What fails here is the fault of a line that no controller would write, if there is one; else it is our own."""
    from odradek.controller.journal import flaw_of
    from odradek.model.errors import OdradekError

    try:
        yield
    except OdradekError:
        raise
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        missing = error.args[0] if isinstance(error, KeyError) else None
        for history in histories:
            for number, line in enumerate(history.lines):
                flaw = flaw_of(line, missing)
                if flaw is not None:
                    fail(f"{_named(history.files)}, line {number} of the journal: {flaw}")
        raise


def _named(files: tuple[Path, ...]) -> str:
    return ", ".join(map(str, files))


def _in_order(files: list[Path], reasons: list[str]) -> History:
    lines: list[dict[str, Any]] = []
    notes: list[str] = list(reasons)
    for file in files:
        with _opened(file) as parts:
            for part in parts:
                found, note = _read(part)
                lines.extend(found)
                notes.extend(note)
    lines.sort(key=lambda line: line["epoch"])  # stable: within a term as they were written
    _check_one_cluster(lines)
    begins = next((n for n, line in enumerate(lines) if line["event"].get("type") == "Elected"), len(lines))
    if begins:
        notes.append(
            f"{counted(begins, 'step')} before the first election that is kept cannot be played again: left out"
        )
    if not lines[begins:]:
        fail(f"{_named(tuple(files))}: no election is recorded, so there is nothing to play again")
    return History(lines[begins:], tuple(files), tuple(notes))


def _check_one_cluster(lines: list[dict[str, Any]]) -> None:
    """An epoch has one controller: `/controller_epoch` is raised in the transaction that elects."""
    elected: dict[int, int] = {}
    for line in lines:
        # In a journal kept from outside each run begins so, with the same epoch, whoever is controller by then.
        if line["event"].get("type") == "Elected" and not line.get("observed"):
            broker = line["event"].get("broker")  # whoever reads on says that there is none
            if elected.setdefault(line["epoch"], broker) != broker:
                fail(
                    f"brokers {elected[line['epoch']]} and {broker} were both elected with epoch {line['epoch']}: these "
                    "are journals of different clusters; name those of one"
                )


@contextmanager
def _opened(file: Path) -> Iterator[list[BinaryIO]]:
    """What was put aside of it, if anything was, and the journal itself. Its broker may put it aside just now: then what was found
    before would lack what stood in it, and is opened anew."""
    aside = put_aside(file)
    while True:
        with ExitStack() as stack:
            former, present = _open_if_there(aside, stack), _open_if_there(file, stack)
            again = _open_if_there(aside, stack)
            if _is_same(former, again):
                yield [part for part in (former, present) if part is not None]
                return


def _open_if_there(path: Path, stack: ExitStack) -> BinaryIO | None:
    try:
        return stack.enter_context(path.open("rb"))
    except FileNotFoundError:
        return None


def _is_same(one: BinaryIO | None, other: BinaryIO | None) -> bool:
    if one is None or other is None:
        return one is other
    return os.path.sameopenfile(one.fileno(), other.fileno())


def put_aside(file: Path) -> Path:
    """Where a journal is that had become too large (server/appended_file.py)."""
    return file.with_name(file.name + ".1")


def _read(stream: BinaryIO) -> tuple[list[dict[str, Any]], list[str]]:
    lines: list[dict[str, Any]] = []
    notes: list[str] = []
    file = Path(stream.name)
    texts = stream.readlines()
    for number, text in enumerate(texts, start=1):
        line = _line(text)
        if line is None:
            if number == len(texts):
                # The broker is in the middle of it, or died there.
                return lines, [*notes, f"{file.name}: the last line is cut short and left out"]
            if _begins_a_term(texts[number]):  # it died there, and was started again
                notes.append(
                    f"{file.name}, line {number}: cut short where its controller ended, and left out"
                )
                continue
            fail(f"{file}, line {number}: not a line of a journal; expected JSON with event, epoch and at_ms")
        lines.append(line)
    return lines, notes


def _line(text: bytes) -> dict[str, Any] | None:
    from odradek.controller.journal import EFFECTS

    try:
        line = json.loads(text)
        if not isinstance(line, dict) or not isinstance(line["event"], dict):
            return None
        line["epoch"], line["at_ms"] = int(line["epoch"]), int(line["at_ms"])
        is_whole = all(_are_records(line.setdefault(name, [])) for name in EFFECTS)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return line if is_whole and 0 <= line["at_ms"] < END_OF_TIME_MS else None


def is_a_line(text: bytes) -> bool:
    return _line(text) is not None


def _are_records(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(record, dict) for record in value)


def _begins_a_term(text: bytes) -> bool:
    """Whether this line begins a term, by its first words: the rest of it may be large."""
    return (
        re.match(
            rb'\{"at_ms":\d+,"controller":-?\d+,"epoch":\d+,(?:"observed":true,)?"event":\{"type":"Elected",',
            text,
        )
        is not None
    )


def settings_of(history: History) -> "ControllerSettings":
    """Of the controller that wrote it, where its properties are known; else the defaults."""
    from odradek.controller.context import ControllerSettings
    from odradek.model.settings import BrokerSettings

    properties = properties_of(history)
    return (
        ControllerSettings()
        if properties is None
        else ControllerSettings.of(BrokerSettings(properties_in(properties)))
    )


def properties_of(history: History) -> Path | None:
    """Those that led to it, or a server.properties where `odradek up` puts it."""
    if history.properties is not None:
        return history.properties
    for file in reversed(history.files):
        for directory in list(file.parents)[:4]:
            properties = directory / "server.properties"
            if properties.exists():
                return properties
    return None


def journals_of_cluster(bootstrap: str) -> History:
    """The journals of the brokers behind `bootstrap`, where they are files of this machine; or why not."""
    from odradek.client.sync import SyncClient

    with SyncClient(bootstrap) as client:
        view = client.cluster([])
        found, reasons = local_journals(client, view)
    if not found:
        why = "; ".join(reasons) or "no broker is alive"
        fail(
            f"no journal can be read through {bootstrap}: {why}; `odradek journal record FILE` keeps one from now on"
        )
    return _in_order(found, reasons)


def local_history(
    bootstrap: str, silent: Mapping[int, str] | None = None, most_bytes: int = LARGEST_READ_UNASKED
) -> History | None:
    """The same where it is at hand, and no error where it is not. `silent`: brokers that are not asked, and why. TooLarge: it would take
    long to read."""
    from odradek.client.sync import SyncClient

    with SyncClient(bootstrap) as client, client.waiting_once(silent):
        found, reasons = local_journals(client, client.cluster([]))
    every = [part for file in found for part in (put_aside(file), file) if part.exists()]
    if not found:
        return None
    size = sum(part.stat().st_size for part in every)
    if size > most_bytes:
        raise TooLarge(f"{shown_bytes(size)} of its journal are not read unasked; {_how_to_read(found)}")
    return _in_order(found, reasons)


def _how_to_read(found: Iterable[Path]) -> str:
    """`--journal` takes one place, and looks as deep below it as PLACES reach."""
    directories = sorted({file.parent.absolute() for file in found})  # of settings, which may be relative
    above = Path(os.path.commonpath(directories))
    if above != above.parent and all(len(one.relative_to(above).parts) < len(PLACES) for one in directories):
        return f"--journal reads them, of {shlex.quote(str(above))}"
    return (
        f"--journal reads those of one directory: {' or '.join(shlex.quote(str(one)) for one in directories)}"
    )


def local_journals(client: "SyncClient", view: "ClusterView") -> tuple[list[Path], list[str]]:
    """Journal files of the cluster's live brokers on this machine, and why there are none for the others."""
    from odradek.cli.config.resources import BROKER, Resource, describe
    from odradek.client.sync_brokers import side_by_side

    found: list[Path] = []
    told = side_by_side(
        client,
        lambda own, broker: describe(own, Resource(BROKER, str(broker))),
        view.brokers,
        timeout_s=PATIENCE_S,
    )
    reasons = list(told.problems.values())  # one has just died, and nobody was told yet, or it hangs
    for broker, entries in told.answers.items():
        known = {entry.name: entry.value for entry in entries}
        if not any(name.startswith("odradek.") for name in known):
            reasons.append(f"broker {broker} is none of ours and keeps no journal")
            continue
        directories = [d for d in (known.get("log.dirs") or known.get("log.dir") or "").split(",") if d]
        if not any(_is_of(Path(d), view.cluster_id) for d in directories):
            where = known.get("odradek.journal.dir") or ",".join(directories)
            reasons.append(
                f"broker {broker} keeps it in {where}, which is not on this machine; copy it and name it"
            )
            continue
        found.extend(_journals_in(known.get("odradek.journal.dir"), directories))
    return sorted(set(found)), reasons


def _is_of(directory: Path, cluster_id: str | None) -> bool:
    """The same path on another machine is another directory: meta.properties says whose it is."""
    return cluster_id is not None and _cluster_of(directory) == cluster_id


def _cluster_of(directory: Path) -> str | None:
    """None where the journal was copied away from its log directory."""
    file = directory / "meta.properties"
    if not file.exists():
        return None
    return properties_in(file).get("cluster.id")
