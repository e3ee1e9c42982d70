"""After any events, appends that fail and fates that come late among them: no transaction is open for longer than its time-out, whatever
is added to it, and when everybody is silent none is open, none is decided and not carried out, and nobody waits.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.coordinator.transaction_states import AT_REST, TransactionState
from odradek.model.error_codes import ErrorCode
from tests.coordinator.passing_time import time_passes
from tests.coordinator.test_transactions import ID, Bench

TIMEOUT_MS, LOOKED_AT_MS = 60_000, 10_000
EVENTS = (
    *["add"] * 4, *["commit"] * 5, "init", "raise", "end", "time", "time", "fail", "late", "written", "written", "move",
)  # fmt: skip
TURNS = st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 3)), min_size=20, max_size=60)


class World:
    def __init__(self) -> None:
        self.bench = Bench(held=True, transaction_version=0)
        self.bench.ids = list(range(1_000, 2_000))
        self.calls: set[int] = set()
        self.is_late = False

    def turn(self, event: str, amount: int) -> None:
        bench = self.bench
        value = bench.coordinator.room.stored.by_id.get(ID)
        producer, epoch = (-1, -1) if value is None else (value.producer_id, value.epoch)
        match event:
            case "init":
                self.calls.add(bench.init())
            case "raise":
                self.calls.add(bench.init(producer_id=producer, producer_epoch=epoch))
            case "add":
                self.calls.add(bench.add(producer, epoch, amount))
            case "end":
                self.calls.add(bench.end(is_commit=amount > 1, producer=producer, epoch=epoch))
            case "time":
                self.wait((1, 9_000, 30_000, 61_000)[amount])
            case "commit" if bench.waiting:
                self.is_late = False
                bench.commit()
            case "fail" if bench.waiting:
                self.is_late = False
                bench.fail()
            case "late" if bench.waiting and not self.is_late:
                self.is_late = True
                bench.fail(ErrorCode.REQUEST_TIMED_OUT)
            case "written" if bench.markers:
                bench.written(bench.markers.pop(0))
            case "move":
                self.is_late = False
                bench.move()

    def wait(self, ms: int) -> None:
        time_passes(self.bench, ms)

    def all_is_committed(self) -> None:
        self.bench.held = False
        while self.bench.waiting:
            self.bench.commit()
        self._carry_out()

    def _carry_out(self) -> None:
        while self.bench.markers:
            self.bench.written(self.bench.markers.pop(0))

    def somebody_adds_and_never_ends(self) -> None:
        """One partition after the other, over a longer time than the transaction has."""
        bench = self.bench
        self.calls.add(bench.init())
        self._carry_out()
        answer = bench.answers[self.calls_last()]
        if answer.error_code:
            self.calls.add(bench.init())
            answer = bench.answers[self.calls_last()]
        for partition in range(4):
            self.calls.add(bench.add(answer.producer_id, answer.producer_epoch, partition))
            self.wait((TIMEOUT_MS + LOOKED_AT_MS) // 4)
        self.wait(LOOKED_AT_MS)
        found = bench.coordinator.room.stored.by_id[ID]
        assert found.state is not TransactionState.ONGOING, "it is open for longer than its time-out"

    def calls_last(self) -> int:
        return max(self.calls)


@given(TURNS, st.booleans())
@settings(max_examples=60)
def test_no_transaction_outlives_its_time_out_and_of_silence_nothing_is_left(
    turns: list[tuple[str, int]], is_silent_at_once: bool
) -> None:
    world = World()
    for turn in turns:
        world.turn(*turn)
    world.all_is_committed()
    if not is_silent_at_once:
        world.somebody_adds_and_never_ends()
    world.wait(TIMEOUT_MS + 2 * LOOKED_AT_MS)
    world.all_is_committed()

    room = world.bench.coordinator.room
    assert all(value.state in AT_REST for value in room.stored.by_id.values())
    books = (room.stored.ongoing, room.stored.prepared, room.unmarked, room.incomplete)
    assert not any((*books, room._pending, room._in_flight, room.waiting._waiters))
    assert world.calls == world.bench.answers.keys(), "whoever asks is answered"
