"""Indexes of segments that a thread builds again: who asked for what they say is answered, or asks again, when it has."""

from collections.abc import Callable
from functools import partial

from odradek.broker.aside import Aside
from odradek.broker.effects import Effect, LogLine
from odradek.broker.replica_manager import ReplicaManager
from odradek.log.errors import StorageError
from odradek.log.index_rebuilding import IndexRebuild, Rebuild
from odradek.log.log_state import LogState
from odradek.log.segment import IndexPending, Segment, TransactionsPending
from odradek.log.transaction_rebuilding import TransactionRebuild


class IndexRebuilds:
    def __init__(self, replicas: ReplicaManager, aside: Aside, effects: list[Effect]) -> None:
        self._replicas = replicas
        self._aside = aside
        self._effects = effects
        self.asked: list[Rebuild] = []  # in this turn
        # Those that are asked for and not over, and who waits for each beside the readers of its partition.
        self._waiting: dict[tuple[Segment, type[Rebuild]], list[Callable[[], None]]] = {}
        replicas.logs.rebuild_indexes_by(self._ask)

    def _ask(self, log: LogState, pending: IndexPending) -> None:
        key = pending.segment, _kind(pending)
        if key not in self._waiting:
            self.asked.append(key[1](log, pending.segment))
            self._waiting[key] = []

    def wait(self, pending: IndexPending, go_on: Callable[[], None]) -> None:
        """`go_on` once, when it is built, or will not be; not at all where it could not be for now: who asks has a deadline."""
        waiting = self._waiting.get((pending.segment, _kind(pending)))
        if waiting is None:
            go_on()
        else:
            waiting.append(go_on)

    def begin(self, now_ms: int) -> None:
        """At the end of the turn in which they were asked for."""
        asked, self.asked[:] = self.asked[:], []
        for rebuild in asked:
            self._go_on_with(rebuild, now_ms)

    def _go_on_with(self, rebuild: Rebuild, now_ms: int) -> None:
        self._tell(rebuild)
        self._aside.ask(
            self._aside.lookups,
            lambda: rebuild if rebuild.is_wanted else None,
            partial(self._ran, rebuild),
            now_ms,
        )

    def _tell(self, rebuild: Rebuild) -> None:
        if rebuild.notice:
            self._effects.append(LogLine("warning", f"{rebuild.log.topic_partition}: {rebuild.notice}"))
            rebuild.notice = ""

    def _ran(self, rebuild: Rebuild, came: StorageError | bool | None, now_ms: int) -> None:
        """A piece of it; None where nothing was begun, or the thread failed as nobody foresaw."""
        is_over = came is not True
        try:
            if isinstance(came, StorageError):
                rebuild.failed(came)
            if is_over:
                rebuild.give_up()
            elif rebuild.is_over:
                is_over = rebuild.put()
        except StorageError as error:
            is_over = True
            self._effects.append(LogLine("warning", f"{rebuild.log.topic_partition}: {error.message}"))
        except Exception:  # no memory, say: whoever asks next has it built anew
            del self._waiting[rebuild.segment, type(rebuild)]
            raise
        if not is_over:
            self._go_on_with(rebuild, now_ms)
            return
        waiting = self._waiting.pop((rebuild.segment, type(rebuild)))
        self._tell(rebuild)
        if came is not True and rebuild.is_wanted:
            # For want of a descriptor, say. Were readers woken they would ask at once, and so without end.
            return
        partition = self._replicas.partitions.get(rebuild.log.topic_partition)
        if partition is not None and partition.log is rebuild.log:
            partition.readable_again()
        for go_on in waiting:
            go_on()


def _kind(pending: IndexPending) -> type[Rebuild]:
    return TransactionRebuild if isinstance(pending, TransactionsPending) else IndexRebuild
