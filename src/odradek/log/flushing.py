"""Making a log durable without stopping it, and knowing up to where it is.

The recovery point divides a log: below it nothing is ever cut silently. It only moves up
after the data, the names of the files and everything derived from the data below it were synced, in that order.

A flush is planned by the owner of the log, run in a thread, and committed by the owner. While it runs the log may
be appended to, rolled and cut; a cut makes a new generation, and a flush of an older one changes nothing any more.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from odradek.log.config import LONG_MAX, LogConfig
from odradek.log.errors import MissingFile
from odradek.log.files import Directory, File
from odradek.log.segment import Segment

# Of one flush: of a log that is recovered, thousands may not be known to be on disk, and each takes a descriptor.
MOST_SEGMENTS = 100


class FlushState:
    __slots__ = (
        "_asked",
        "_changed_names",
        "_directory_changes",
        "_floor",
        "_flushed",
        "_parent_changed",
        "_rolls",
        "directory_synced",
        "generation",
        "is_settled",
        "last_flush_ms",
        "rolls_flushed",
        "unsynced_cut",
    )

    def __init__(self, recovery_point: int) -> None:
        self.generation = 0
        self._floor = recovery_point  # holds from the last cut on
        # Generation and offset in one value, so that a thread sets both at once.
        self._flushed: tuple[int, int] = (-1, -1)
        # The least offset of the cuts that no flush has made durable: a power cut may bring back what was above. LONG_MAX: there is none.
        self.unsynced_cut = LONG_MAX
        # Files written whole and not synced, each with the number of the change that was its last.
        self._changed_names: dict[str, int] = {}
        self._directory_changes = 0
        self.directory_synced = 0  # so many of them
        self._parent_changed = False
        self._rolls = 0
        self.rolls_flushed = 0
        self.last_flush_ms = -1
        # Nobody need ask whether a flush is due before something comes.
        self.is_settled = False
        self._asked: Callable[[], None] | None = None

    @property
    def recovery_point(self) -> int:
        generation, offset = self._flushed
        return offset if generation == self.generation else self._floor

    @property
    def names_are_synced(self) -> bool:
        return self.directory_synced == self._directory_changes

    @property
    def is_in_place(self) -> bool:
        """The name of the log's own directory is synced."""
        return not self._parent_changed

    def reached(self, generation: int, offset: int) -> None:
        self._flushed = (generation, offset)

    def cut(self, offset: int) -> None:
        """The log ends here now, or will in a moment."""
        floor = min(self.recovery_point, offset)
        self.generation += 1
        self._floor = floor
        self.unsynced_cut = min(self.unsynced_cut, offset)
        self.came()

    def may_have_been_cut(self, offset: int) -> None:
        """No further down than to here, by a life that was killed before it could flush."""
        self.unsynced_cut = offset

    def name_changed(self, name: str) -> None:
        self._directory_changes += 1
        self._changed_names[name] = self._directory_changes

    def names_dirty(self) -> None:
        self._directory_changes += 1

    def created(self) -> None:
        """The directory of the log itself is new: its name has to be synced too."""
        self._directory_changes += 1
        self._parent_changed = True

    def rolled(self) -> None:
        self._rolls += 1
        self._directory_changes += 1
        self.came()

    def when_something_comes(self, ask: Callable[[], None]) -> None:
        """`ask` is told once, from now on or from `settled` on, that a flush may be due."""
        self._asked = ask
        self.is_settled = True

    def settled(self) -> None:
        self.is_settled = self._asked is not None

    def came(self) -> None:
        """Records, a new segment, other settings: a flush may be due, at once or by and by."""
        if self.is_settled and self._asked is not None:
            self.is_settled = False
            self._asked()

    def has_nothing(self, log_end_offset: int) -> bool:
        """Whatever the settings are, no flush becomes due before something comes."""
        return log_end_offset <= self.recovery_point and self._rolls == self.rolls_flushed

    def is_due_later(self, log_end_offset: int, config: LogConfig) -> bool:
        """By time alone; or it is due already, in part."""
        if self._is_overdue(log_end_offset):
            return True
        unflushed = log_end_offset - self.recovery_point
        return unflushed >= config.flush_messages or (unflushed > 0 and config.flush_ms < LONG_MAX)

    def is_due(self, log_end_offset: int, now_ms: int, config: LogConfig) -> bool:
        unflushed = log_end_offset - self.recovery_point
        return (
            unflushed >= config.flush_messages
            or self._is_overdue(log_end_offset)
            or (unflushed > 0 and now_ms - self.last_flush_ms >= config.flush_ms)
        )

    def _is_overdue(self, log_end_offset: int) -> bool:
        """Whatever the settings are: a segment was begun, or no high watermark above a cut can be written down before."""
        return self._rolls != self.rolls_flushed or self.unsynced_cut < log_end_offset


class FlushPlan:
    """Values and open files only: nothing in it changes when the log does. What it has synced it says by numbers that only rise, so
    two that ran at once, in whatever order they end, say nothing of what came behind both.
    """

    __slots__ = (
        "_directory",
        "_files",
        "_names",
        "_parent",
        "changes_names",
        "directory_changes",
        "generation",
        "is_partial",
        "rolls",
        "segments",
        "up_to_offset",
    )

    def __init__(
        self,
        directory: Directory,
        parent: Directory | None,
        segments: list[Segment],
        names: Sequence[str],
        up_to_offset: int,
        generation: int,
        directory_changes: int,
        changes_names: bool,
        rolls: int,
        is_partial: bool,
    ) -> None:
        self._directory = directory
        self._parent = parent
        self.segments = segments
        self._files: list[File] = [segment.file for segment in segments]
        self._names = names
        self.up_to_offset = up_to_offset
        self.generation = generation
        self.directory_changes = directory_changes  # those of the log up to here
        self.changes_names = changes_names  # some of them are not synced yet
        self.rolls = rolls
        self.is_partial = is_partial  # another one has to follow

    @property
    def is_empty(self) -> bool:
        return not self._files and not self.changes_names

    def run(self) -> None:
        """Blocks. An error has taken the log directory offline: there is no second try (see `files`). Only a log that
        was deleted meanwhile is a MissingFile and no more."""
        for file in self._files:
            file.sync()
        for name in self._names:
            # Removed since, or in this moment, by whoever cuts the log: then there is nothing to sync.
            with suppress(MissingFile):
                self._directory.sync_file(name)
        if self.changes_names:
            self._directory.sync()
        if self._parent is not None:
            self._parent.sync()

    def parent_synced(self) -> bool:
        return self._parent is not None


def plan(
    state: FlushState,
    directory: Directory,
    parent: Directory | None,
    segments: Sequence[Segment],
    log_end_offset: int,
) -> FlushPlan:
    """`parent`: the directory above, in which the name of `directory` may have to be synced."""
    generation = state.generation
    recovery_point = state.recovery_point
    unflushed: list[Segment] = []
    if log_end_offset > recovery_point:
        unflushed = [s for s in segments if s.end_offset < 0 or s.end_offset > recovery_point]
    is_partial = len(unflushed) > MOST_SEGMENTS
    if is_partial:
        unflushed = unflushed[:MOST_SEGMENTS]
    as_segments = {segment.name() for segment in unflushed}
    return FlushPlan(
        directory,
        parent if state._parent_changed else None,
        unflushed,
        tuple(name for name in state._changed_names if name not in as_segments),
        unflushed[-1].end_offset if is_partial else log_end_offset,
        generation,
        state._directory_changes,
        not state.names_are_synced,
        state.rolls_flushed if is_partial else state._rolls,
        is_partial,
    )


def commit(state: FlushState, plan: FlushPlan, now_ms: int) -> int:
    """The flush ran. Returns the recovery point, which is not the plan's if the log was cut meanwhile."""
    if plan.generation == state.generation:
        state.unsynced_cut = LONG_MAX  # a partial flush syncs all names too
        if plan.up_to_offset > state.recovery_point:
            state.reached(plan.generation, plan.up_to_offset)
    if plan.directory_changes > state.directory_synced:
        state.directory_synced = plan.directory_changes
        for name, change in list(state._changed_names.items()):
            if change <= plan.directory_changes:
                del state._changed_names[name]
    state.rolls_flushed = max(state.rolls_flushed, plan.rolls)
    if plan.parent_synced():
        state._parent_changed = False
    if now_ms >= 0 and not plan.is_partial:
        state.last_flush_ms = now_ms
    for segment in plan.segments:
        if 0 <= segment.end_offset <= state.recovery_point:
            segment.close_handles()  # a rolled segment kept its descriptor for this flush
    return state.recovery_point
