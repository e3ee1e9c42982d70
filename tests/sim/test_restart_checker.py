"""I13: hand-made restarts that are wrong, each named; and the real thing, with a recovery that is broken on purpose."""

from dataclasses import replace

import pytest

from odradek.log.segment import Segment
from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.batches import BatchView
from odradek.sim.checkers.restart import KnownProducer, LogAnswers, epochs_alike, known_alike, restartable
from odradek.sim.plan import draw
from odradek.sim.run import CORRECTNESS, OK, run
from tests.support import each

T = TopicPartition("t", 0)
BATCHES = tuple(BatchView(n, n, 0, 100 + n) for n in range(3))
PLACES = ((0, 0, 0), (1, 0, 70), (2, 0, 140))
RUNNING = LogAnswers(0, 3, BATCHES, ((0, 0),))
GOOD = LogAnswers(0, 3, BATCHES, ((0, 0),), PLACES, PLACES)


def with_producer(answers: LogAnswers, sequence: int, last_offset: int = 2) -> LogAnswers:
    return answers._replace(known=(KnownProducer(7, 0, sequence, last_offset, -1),))


def judge(once: LogAnswers | None, twice: LogAnswers | None, running: LogAnswers = RUNNING) -> list[str]:
    return [str(a) for a in restartable(BrokerId(1), T, running=running, once=once, twice=twice)]


BAD: list[tuple[str, LogAnswers | None, LogAnswers | None, str]] = [
    ("the log is not there", None, None, "not found"),
    ("it is refused", LogAnswers(refused="flushed records are missing"), None, "refused"),
    (
        "a written record is gone",
        GOOD._replace(log_end_offset=2, batches=BATCHES[:2], by_index=PLACES[:2], by_scan=PLACES[:2]),
        None,
        "ends at 3, and at 2",
    ),
    (
        "the log start went on",
        GOOD._replace(log_start_offset=1),
        GOOD._replace(log_start_offset=1),
        "starts at 0",
    ),
    (
        "a batch is another one",
        GOOD._replace(batches=(*BATCHES[:2], BatchView(2, 2, 0, 7))),
        GOOD._replace(batches=(*BATCHES[:2], BatchView(2, 2, 0, 7))),
        "batches differ",
    ),
    ("an epoch is gone", GOOD._replace(epochs=()), GOOD._replace(epochs=()), "epochs"),
    (
        "the index finds another place",
        GOOD._replace(by_index=((0, 0, 0), (1, 0, 0), (2, 0, 140))),
        GOOD._replace(by_index=((0, 0, 0), (1, 0, 0), (2, 0, 140))),
        "the index finds (1, 0, 0)",
    ),
    ("the second recovery forgets a producer", GOOD._replace(producers=b"p"), GOOD, "changes producers"),
    (
        "the second recovery cuts",
        GOOD,
        GOOD._replace(log_end_offset=2, batches=BATCHES[:2]),
        "changes log_end_offset, batches",
    ),
]


@pytest.mark.parametrize(("why", "once", "twice", "says"), BAD, ids=[why for why, *_ in BAD])
def test_a_bad_restart_is_named(
    why: str, once: LogAnswers | None, twice: LogAnswers | None, says: str
) -> None:
    twice = once if twice is None else twice
    (first, *_) = judge(once, twice)

    assert first.startswith("I13: t-0: broker 1: ")
    assert says in first


def test_a_good_restart_passes() -> None:
    assert judge(GOOD, GOOD) == []


def test_a_producer_that_is_known_otherwise_after_a_restart_is_named() -> None:
    """A client that sends again would be refused, or believed twice."""
    running = with_producer(RUNNING, 4)
    for once in (with_producer(GOOD, 5), GOOD):
        assert ["producer 7" in line for line in judge(once, once, running)] == [True]
    once = with_producer(GOOD, 4)
    assert judge(once, once, running) == []
    assert ["producer 7" in line for line in judge(once, once)] == [True]


def test_a_producer_of_deleted_records_may_be_forgotten() -> None:
    running = with_producer(LogAnswers(2, 3, BATCHES[2:], ((0, 2),)), 4, last_offset=1)
    assert judge(GOOD, GOOD, running) == []


def test_deleted_records_may_be_there_again_and_an_epoch_without_records_may_be_gone() -> None:
    """The checkpoint of log starts is written now and then; nobody leads on in the epoch of a former incarnation."""
    running = LogAnswers(2, 3, BATCHES[2:], ((0, 2), (4, 3)))

    assert judge(GOOD, GOOD, running) == []


# Nothing else asks the index, and a leader's log is not read again.
FAULTLESS = replace(draw(11), duration_s=2.0, faults=())


def test_where_nothing_is_broken_the_simulator_sees_nothing() -> None:
    assert run(FAULTLESS).code == OK


@pytest.mark.parametrize("broken", ["recovery loses the end", "the index is off"])
def test_the_simulator_sees_it(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken == "the index is off":
        right = Segment.position_of

        def position_of(self: Segment, offset: int) -> int:
            # Right for whoever has just appended there, and wrong for whoever looks it up.
            at = right(self, offset)
            return 0 if at and not self.positions else at

        monkeypatch.setattr(Segment, "position_of", position_of)
    else:
        from odradek.sim.observed import restart

        monkeypatch.setattr(
            restart,
            "recovered",
            lambda disks, like, now_ms, real=restart.recovered: _shorter(real(disks, like, now_ms)),
        )

    outcome = run(FAULTLESS)

    assert outcome.code == CORRECTNESS
    assert outcome.anomalies[0].name == "I13"


def _shorter(found: dict[TopicPartition, LogAnswers]) -> dict[TopicPartition, LogAnswers]:
    return {
        p: a._replace(log_end_offset=a.log_end_offset - 1, batches=a.batches[:-1]) for p, a in found.items()
    }


def test_asking_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies are recovered: what the brokers do afterwards is the same."""
    asked = run(draw(4))
    monkeypatch.setattr("odradek.sim.run.would_not_restart", lambda world: [])
    unasked = run(draw(4))

    assert (asked.code, asked.trace_hash) == (OK, unasked.trace_hash)


def alike(*known: tuple[KnownProducer, ...], starts: tuple[int, ...] = (0, 0, 0)) -> list[str]:
    logs = {
        BrokerId(n): (start, of_one) for n, (start, of_one) in enumerate(zip(starts, known, strict=False), 1)
    }
    return [anomaly.detail for anomaly in known_alike(T, logs)]


PRODUCER = KnownProducer(7, 0, 4, 2, -1)
UNLIKE = {
    "another sequence": PRODUCER._replace(last_sequence=5),
    "another epoch": PRODUCER._replace(producer_epoch=1),
    "a transaction that is open": PRODUCER._replace(transaction_first_offset=2),
    "a batch behind it": PRODUCER._replace(last_sequence=5, last_offset=3),
}


@each(UNLIKE)
def test_replicas_that_know_a_producer_differently_are_named(why: str) -> None:
    (found,) = alike((PRODUCER,), (PRODUCER,), (UNLIKE[why],))
    assert "broker 1 knows of producer 7" in found and "broker 3" in found


def test_a_producer_that_one_of_them_has_forgotten_is_named() -> None:
    assert len(alike((PRODUCER,), ())) == len(alike((), (PRODUCER,))) == 1


def test_of_a_producer_whose_last_record_is_deleted_nothing_is_asked() -> None:
    assert alike((PRODUCER,), (), starts=(0, 3)) == alike((PRODUCER,), (), starts=(3, 0)) == []
    assert len(alike((PRODUCER,), (), starts=(2, 2))) == 1


def epochs(*of_brokers: tuple[int, tuple[tuple[int, int], ...]]) -> list[str]:
    """Of each broker where its log begins, and its epochs; all end at 9."""
    logs = {BrokerId(n): LogAnswers(start, 9, (), known) for n, (start, known) in enumerate(of_brokers, 1)}
    return [anomaly.detail for anomaly in epochs_alike(T, logs)]


EPOCHS = (0, ((0, 0), (2, 4), (3, 6)))
UNLIKE_EPOCHS = {
    "one is missing": (0, ((0, 0), (3, 6))),
    "one begins later": (0, ((0, 0), (2, 5), (3, 6))),
    "the last one is another": (0, ((0, 0), (2, 4), (4, 6))),
}


@each(UNLIKE_EPOCHS)
def test_replicas_that_know_an_epoch_differently_are_named(why: str) -> None:
    (found,) = epochs(EPOCHS, EPOCHS, UNLIKE_EPOCHS[why])
    assert found.startswith("broker 1 knows the epochs ((0, 0), (2, 4), (3, 6)), and broker 3 ")


def test_of_an_epoch_that_brought_nothing_or_is_deleted_nothing_is_asked() -> None:
    assert epochs(EPOCHS, (0, ((0, 0), (2, 4), (3, 6), (5, 9)))) == []
    assert epochs(EPOCHS, (5, ((2, 5), (3, 6)))) == []
