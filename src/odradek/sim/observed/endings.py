"""What is judged when a process ends: what its next life will find, and what it leaves behind."""

from collections.abc import Iterator
from typing import Any

from odradek.controller.events import Requested
from odradek.log.checkpoints import CLEAN_SHUTDOWN, CLEANER, HIGH_WATERMARK, LOG_START, RECOVERY_POINT
from odradek.log.segment import INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX, file_name
from odradek.log.truncated_tails import TAILS
from odradek.model.controller_requests import ControlledShutdownAnswer, ControlledShutdownAsked
from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.endings import Checkpoint, checkpoints_hold, nothing_is_left, stop_is_durable
from odradek.sim.observed.log_files import entries_of, offsets_in
from odradek.sim.world import SimBroker, World

MADE_AGAIN = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, SNAPSHOT_SUFFIX)


class Endings:
    """What is found goes to `World.let_in`, which is judged at the next look."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._asked: dict[tuple[BrokerId, int], BrokerId] = {}  # (controller, request id) -> who asks to stop
        self._left: dict[BrokerId, tuple[TopicPartition, ...]] = {}  # what it still led when it was told last
        world.on_controller_step.append(self._controller_stepped)
        world.on_process_end.append(self._process_ends)

    def _controller_stepped(self, broker: SimBroker, event: Any, effects: Any) -> None:
        if type(event) is Requested and type(event.body) is ControlledShutdownAsked:
            self._asked[broker.broker_id, event.request_id] = event.body.broker
        for answer in effects.answers if self._asked else ():
            leaver = self._asked.pop((broker.broker_id, answer.request_id), None)
            if leaver is not None and isinstance(answer.body, ControlledShutdownAnswer):
                self._left[leaver] = answer.body.remaining

    def _process_ends(self, broker: SimBroker, asked_to_stop_s: float | None) -> None:
        """`asked_to_stop_s`: when, of one that stops in order."""
        left = self._left.pop(broker.broker_id, ())
        if broker.runtime is None or not broker.is_serving:
            return
        self._world.let_in += checkpoints_hold(_checkpoints(broker))
        if asked_to_stop_s is not None:
            pause_s = broker.settings().controlled_shutdown_retry_backoff_ms / 1000
            took_s = self._world.loop.time() - asked_to_stop_s
            self._world.let_in += nothing_is_left(broker.broker_id, left, has_asked_once=took_s < pause_s)
            self._world.let_in += stop_is_durable(broker.broker_id, _volatile(broker))


def _checkpoints(broker: SimBroker) -> Iterator[Checkpoint]:
    """Read as they lie on the disk; no file is opened."""
    assert broker.runtime is not None
    logs = broker.runtime.logs
    for directory in logs.directories:
        if not directory.is_online:
            continue
        root: Any = directory.root
        entries = entries_of(root)
        for name in (RECOVERY_POINT, HIGH_WATERMARK, LOG_START, CLEANER):
            for partition, offset in offsets_in(entries, name).items():
                log = logs.logs.get(partition)
                if log is None or log.failure is not None or logs.directory_of(partition) != directory.path:
                    continue
                replica = broker.replica(partition)
                most = {LOG_START: log.log_start_offset}
                if name == RECOVERY_POINT:
                    most[name] = _flushed(root.disk, log, offset)
                if replica is not None and replica.log is log:  # else it has not been told of since its start
                    most[HIGH_WATERMARK] = replica.high_watermark
                yield Checkpoint(
                    partition, broker.broker_id, name, offset, most.get(name, log.log_end_offset)
                )


def _flushed(disk: Any, log: Any, said: int) -> int:
    """As far as the log says; or all of it, where no batch could still be lost: before a log is cut it says no more than what stays,
    and a thread lowers the checkpoint first (seed 5922)."""
    if said <= log.recovery_point:
        return said
    path = "/".join(log.directory._parts)
    is_volatile = any(name == path or name.endswith(LOG_SUFFIX) for name in disk.volatile(path))
    return int(log.recovery_point if is_volatile else log.log_end_offset)


def _volatile(broker: SimBroker) -> Iterator[tuple[TopicPartition, list[str]]]:
    """Of each log in a directory with the marker of a clean stop. An index file that is torn is made again, and a snapshot of producers
    that is torn is passed over, for one before it or for the batches; the next start needs the one at the end. What an unclean election
    cut off is kept for people, as long as it lasts.
    """
    assert broker.runtime is not None
    logs = broker.runtime.logs
    for directory in logs.directories:
        root: Any = directory.root
        if not directory.is_online or root.disk.failures:
            continue  # a file that could not be found when it was to be synced, and is there again, say
        if CLEAN_SHUTDOWN in entries_of(root):
            for partition, log in logs.logs.items():
                if logs.directory_of(partition) == directory.path:
                    own: Any = log.directory
                    last = file_name(log.log_end_offset, SNAPSHOT_SUFFIX)
                    names = [
                        name
                        for name in root.disk.volatile("/".join(own._parts))
                        if f"/{TAILS}" not in name and (not name.endswith(MADE_AGAIN) or name.endswith(last))
                    ]
                    yield partition, names
