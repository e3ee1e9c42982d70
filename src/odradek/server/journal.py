"""The state-change journal: what the controller of this process was told, decided and changed, a line a step.

A file per controller, JSON lines, append-only: `controller-<broker>.jsonl`. Every line holds the event, the
writes, the requests and the changes of one `core.step`, so that a run can be read, compared and played again.
The journal is for people: it is not flushed, and a journal that cannot be written is said once and left, the
controller goes on.
"""

import json
from typing import TYPE_CHECKING, Any

from odradek.log.files import Directory, File
from odradek.model.errors import OdradekError
from odradek.model.ids import BrokerId, ControllerEpoch, TopicPartition
from odradek.server.log_limits import LimitedLog

if TYPE_CHECKING:
    from odradek.controller.effects import Effects
    from odradek.controller.events import Event

# Beyond this the file is put aside as `.1` and a new one begun.
LARGEST_FILE_BYTES = 256 * 1024 * 1024


class Journal:
    def __init__(self, directory: Directory, broker: BrokerId, log: LimitedLog) -> None:
        self._directory = directory
        self._name = f"controller-{broker}.jsonl"
        self._broker = broker
        self._log = log
        self._file: File | None = None

    def record(self, now_ms: int, epoch: ControllerEpoch, event: "Event", effects: "Effects") -> None:
        line = {
            "at_ms": now_ms,
            "controller": self._broker,
            "epoch": epoch,
            "event": as_json(event),
            "writes": as_json(effects.writes),
            "requests": as_json(effects.requests),
            "changes": as_json(effects.changes),
            "answers": as_json(effects.answers),
        }
        if effects.resign is not None:
            line["resign"] = effects.resign
        self._append((json.dumps(line, separators=(",", ":")) + "\n").encode())

    def _append(self, line: bytes) -> None:
        try:
            if self._file is None:
                self._file = self._directory.open(self._name, create=True)
            if self._file.size_bytes > LARGEST_FILE_BYTES:
                self._directory.rename(self._name, f"{self._name}.1")
                self._file = self._directory.open(self._name, create=True)
            self._file.append(line)
        except OdradekError as error:
            self._log.warning("journal", f"the state-change journal cannot be written: {error}")


def as_json(value: Any) -> Any:
    """A value of the controller as JSON: a record is an object with its type's name under `type`."""
    if value is None or isinstance(value, (str, bool, float)):
        return value
    if isinstance(value, TopicPartition):
        return str(value)
    if isinstance(value, int):
        return getattr(value, "name", int(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, (set, frozenset)):
        return sorted(as_json(item) for item in value)
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        if names is not None:
            return {"type": type(value).__name__, **{n: as_json(getattr(value, n)) for n in names}}
        return [as_json(item) for item in value]
    if isinstance(value, list):
        return [as_json(item) for item in value]
    fields = getattr(type(value), "__dataclass_fields__", None)
    if fields is not None:
        return {"type": type(value).__name__, **{n: as_json(getattr(value, n)) for n in fields}}
    items = getattr(value, "items", None)
    if items is not None:
        return {str(key): as_json(item) for key, item in items()}
    return str(value)
