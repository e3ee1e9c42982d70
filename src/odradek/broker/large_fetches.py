"""A Fetch that names, or whose session has, thousands of partitions: taken in and looked at in slices.

A follower of one leader may want 48,000 of them, and an answer that begins a session, or belongs to none, has a row for each. In between
others are served, and partitions may change. So what is told of each is its row, and not what holds when the answer is
made: whoever has said something since it was looked at stays pending, and is told with the next fetch.

The fetch stands in the purgatory meanwhile. Whatever else cuts a fetch short cuts this one: it answers with the rows that it
has, and the others stay pending.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

from odradek.broker.answers import CloseConnection, Park, Reply
from odradek.broker.fetch_sessions import NO_SESSION, WantedPartition
from odradek.broker.handlers.fetch import (
    FINAL_EPOCH,
    HIGH_WATERMARK_WAIT_MS,
    INITIAL_EPOCH,
    MOST_AT_ONCE,
    FetchWait,
    Gathered,
    forget,
    take_in,
    taken_in,
)
from odradek.broker.slices import END
from odradek.model.error_codes import ErrorCode
from odradek.protocol.flat.fetch_response import encode as encode_response

# In one step: well below a millisecond.
OF_A_STEP = 200
# Nobody's slices take that long.
PATIENCE_MS = 60_000


class LargeFetch(FetchWait):
    __slots__ = ("due_ms", "error", "rest", "so_far", "steps")

    due_ms: int  # its deadline, as far as it is known
    error: ErrorCode | None  # of the whole request
    rest: list[Callable[[], None]]  # what it names and is not taken in yet, the last piece first
    so_far: Gathered | None
    steps: Iterator[None] | None  # under way

    def begin(self, now_ms: int) -> Park:
        body, session = self.body, self.session
        self.error = self.so_far = None
        self.rest = [
            partial(take_in, session, [(key, rows[at : at + OF_A_STEP])])
            for key, rows in body.topics
            for at in range(0, len(rows), OF_A_STEP)
        ]
        if body.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            self.rest += [
                partial(forget, session, [(key, indexes[at : at + OF_A_STEP])])
                for key, indexes in body.forgotten_topics_data
                for at in range(0, len(indexes), OF_A_STEP)
            ]
        self.rest.reverse()
        self.due_ms = now_ms + PATIENCE_MS
        park = self.park_until(self.due_ms, now_ms)
        self.is_waiting = False
        self._go_on_with(self._all(now_ms))
        return park

    def _all(self, begun_ms: int) -> Iterator[None]:
        while self.rest:
            self.rest.pop()()
            yield
        self.session.parked = None  # it is this one, and would be answered with its session
        self.error = taken_in(self.broker, self.session, self.body, self.broker.now_ms)
        self.session.parked = self
        if self.error is None:
            yield from self._look(is_final=self.body.max_wait_ms <= 0)
            assert self.so_far is not None
            if not self.is_enough(self.so_far):
                self.due_ms = self.deadline_ms(begun_ms)
            self.is_waiting = True

    def _look(self, *, is_final: bool) -> Iterator[None]:
        session = self.session
        gathered = self.so_far = Gathered(self.broker.now_ms, at_once=is_final or not session.wanted)
        gathered.rows = {}
        session.changed.clear()
        self.is_filled = False
        self.held_until_ms = -1
        pending = tuple(session.pending)
        for at in range(0, len(pending), OF_A_STEP):
            some = pending[at : at + OF_A_STEP]
            self._look_at(some, gathered, self.broker.now_ms)
            if session.id == NO_SESSION:
                for wanted in some:
                    if wanted.partition is not None:
                        wanted.watch(wanted.partition)
            yield

    def _look_at(self, some: Sequence[WantedPartition], gathered: Gathered, now_ms: int) -> None:
        for wanted in some:
            wanted.is_dirty = False  # to hear of what comes behind the look
        self.look_at(some, gathered, now_ms)

    def _go_on_with(self, steps: Iterator[None]) -> None:
        self.steps = steps
        self.broker.slices.begin(partial(self._step, steps))

    def _step(self, steps: Iterator[None], now_ms: int) -> bool:
        if self.steps is not steps:
            return False  # cut short, or nobody waits for it any more
        try:
            if next(steps, END) is not END:
                return True
        except Exception as mistake:  # ours: whoever waits hears that there is no answer
            assert self.park is not None
            failure = CloseConnection.because(mistake)
            self.leave()
            self.park.complete(failure)
            return False
        self.steps = None
        self._ended(now_ms)
        return False

    def _ended(self, now_ms: int) -> None:
        purgatory, gathered = self.broker.purgatory, self.so_far
        if self.error is not None:
            purgatory.complete(self, now_ms)
            return
        assert gathered is not None
        if self.is_enough(gathered) or now_ms >= self.due_ms:
            self.gathered = gathered
            purgatory.complete(self, now_ms)
            return
        if self.held_until_ms >= 0:
            self.due_ms = min(self.due_ms, self.held_until_ms)
        self.be_due_by(now_ms + HIGH_WATERMARK_WAIT_MS if self.has_newer_high_watermark else self.due_ms)
        if self.session.changed:
            purgatory.wake(self)

    # ------------------------------------------------------------------------------ asked by the purgatory

    def is_over(self, now_ms: int) -> bool:
        if self.steps is not None:
            return False
        if len(self.session.pending) > MOST_AT_ONCE:
            if self._may_be_over():
                self._go_on_with(self._look(is_final=False))
            return False
        return super().is_over(now_ms)

    def be_due_by(self, deadline_ms: int) -> None:
        """When its steps end, if some are under way. As it answers, a follower's position may move the mark."""
        if self.steps is None and not self.is_done:
            self.due_ms = min(self.due_ms, deadline_ms)
            super().be_due_by(self.due_ms)

    def finish(self, now_ms: int, *, is_late: bool) -> None:
        if self.error is not None:
            error = self.error
            assert self.park is not None
            self._let_go()
            self.park.answer(
                lambda: Reply(encode_response(self.version, error_code=error, session_id=NO_SESSION))
            )
        elif not is_late or (self.steps is None and len(self.session.pending) <= MOST_AT_ONCE):
            super().finish(now_ms, is_late=is_late)
        elif now_ms >= self.due_ms:
            self._say_what_there_is(now_ms)
        else:
            self._cut_short(now_ms)

    def _say_what_there_is(self, now_ms: int) -> None:
        """Its time is over. Another one takes its place, for this one is in the books no more."""
        self.steps = None
        self._take_in_the_rest()
        other = LargeFetch(self.broker, self.version, self.body, self.session, self.connection)
        other.error = other.so_far = None
        other.rest = []
        other.limits, other.throttle_ms, other.max_bytes, other.rack, other.park = (
            self.limits,
            self.throttle_ms,
            self.max_bytes,
            self.rack,
            self.park,
        )
        other.is_waiting = True
        other.due_ms = now_ms + PATIENCE_MS
        self.session.parked = self.connection.parked = other
        self.broker.purgatory.park(other, deadline_ms=other.due_ms)
        other._go_on_with(other._look(is_final=True))

    def _cut_short(self, now_ms: int) -> None:
        """Its reader asks for something else, or its session ends."""
        was_under_way, self.steps = self.steps is not None, None
        self._take_in_the_rest()
        gathered = self.so_far if was_under_way else None
        if gathered is None:
            # One step: a reader that has two fetches under way, which cut each other short, gets on all the same.
            gathered = Gathered(now_ms, at_once=True)
            gathered.rows = {}
            self._look_at(tuple(islice(self.session.pending, OF_A_STEP)), gathered, now_ms)
        self.gathered = gathered
        super().finish(now_ms, is_late=False)

    def _take_in_the_rest(self) -> None:
        """The session has to know what its reader said, whatever becomes of the answer."""
        while self.rest:
            self.rest.pop()()

    def leave(self) -> None:
        self.steps = None
        self._take_in_the_rest()
        super().leave()
