"""What a controller owes when a step of its is done: contexts made by hand, each of which breaks one duty, or none."""

from types import SimpleNamespace
from typing import Any

from odradek.controller import replica_removal, topic_deletion, unclean
from odradek.controller.broker_requests import LeaderAndIsrRequest, StopReplicaRequest
from odradek.controller.context import ReassignmentPhase
from odradek.controller.states import ReplicaState
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.facts import StoredPartitionState
from odradek.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
)
from odradek.sim.observed.controller_duties import INELIGIBLE, ControllerDuties, Queue
from tests.support import each

T, U = TopicPartition("t", 0), TopicPartition("u", 0)
ONE, TWO, THREE = map(BrokerId, (1, 2, 3))


def state(
    epoch: int = 3,
    *,
    leader: int = 1,
    isr: tuple[int, ...] = (1, 2, 3),
    elr: tuple[int, ...] = (),
    partition_epoch: int = 5,
    recovery: int = 0,
) -> StoredPartitionState:
    led = LeaderAndIsr(
        BrokerId(leader),
        LeaderEpoch(epoch),
        tuple(map(BrokerId, isr)),
        PartitionEpoch(partition_epoch),
        recovery,
        elr=tuple(map(BrokerId, elr)),
    )
    return StoredPartitionState(led, ControllerEpoch(1))


def context(**changes: Any) -> Any:
    """Three brokers, and one partition on them."""
    usual = {
        "brokers": {b: SimpleNamespace(epoch=10 * b, clean_epoch=-1) for b in (1, 2, 3)},
        "leaderships": {T: state()},
        "assignments": {T: ReplicaAssignment((ONE, TWO, THREE))},
        "reassignments": {},
        "removals": {},
        "last_epochs": {b: 99 for b in (1, 2, 3)},
        "pending_deletions": {},
        "offline_directories": {},
        "shutting_down_brokers": set(),
        "topics_to_delete": set(),
        "partitions_of": lambda topic: [T],
        "replica_state_overrides": {},
        "polls": {},
        "pending_deletions_sent": {},
        "deadlines": {},
        "min_insync_replicas": lambda topic: 2,
        "replica_state": lambda partition, broker: ReplicaState.ONLINE,
    }
    return SimpleNamespace(**usual | changes)


def told(broker: int, kind: type = LeaderAndIsrRequest) -> Any:
    partitions = (SimpleNamespace(topic_partition=T),)
    if kind is StopReplicaRequest:
        return StopReplicaRequest(BrokerId(broker), BrokerEpoch(1), ONE, ControllerEpoch(1), partitions)  # type: ignore[arg-type]
    return LeaderAndIsrRequest(BrokerId(broker), BrokerEpoch(1), ONE, ControllerEpoch(1), partitions, ())  # type: ignore[arg-type]


def names(*steps: tuple[Any, tuple[Any, ...]], queues: tuple[tuple[Queue, ...], ...] = ()) -> list[str]:
    """Of the last of these steps: one controller, whose context is as each says, after whose step it rests."""
    duties, one, found = ControllerDuties(), context(), []
    for number, (changes, requests) in enumerate(steps):
        vars(one).update(vars(context(**changes)))
        effects = SimpleNamespace(requests=requests)
        found = duties.observe(one, effects, queues[number] if queues else (), is_resting=True)
    return [anomaly.name for anomaly in found]


STATES = {1: ReplicaState.ONLINE, 2: ReplicaState.ONLINE, 3: ReplicaState.DELETION_STARTED}
ALL = (told(1), told(2), told(3))
ANEW = {"leaderships": {T: state(4)}}
ALONE = {"leaderships": {T: state(3, isr=(1,), elr=(2,), partition_epoch=6)}}
OWES = {"removals": {T: {THREE: 0}}, "assignments": {T: ReplicaAssignment((ONE, TWO))}}
GONE: dict[Any, Any] = {b: SimpleNamespace(epoch=10 * b, clean_epoch=-1) for b in (1, 2)}
STOPPING = SimpleNamespace(phase=ReassignmentPhase.STOPPING)


def back(epoch: int, clean_epoch: int = -1) -> dict[str, Any]:
    """Broker 2 is eligible, and in this life."""
    return {
        **ALONE,
        "brokers": {
            1: SimpleNamespace(epoch=10, clean_epoch=-1),
            2: SimpleNamespace(epoch=epoch, clean_epoch=clean_epoch),
        },
    }


# Broker 1 was the last of the ISR and leads again, in another life.
LAST = {"leaderships": {T: state(3, leader=-1, isr=(1,), elr=(3,))}}
LEADS = {"leaderships": {T: state(4, leader=1, isr=(1,), recovery=1)}}
# Of two that were in sync only broker 1 has been in another life since.
TWO_LAST = {"leaderships": {T: state(3, leader=-1, isr=(1, 2))}}
BACK = {"brokers": {b: SimpleNamespace(epoch=10 * b + (b == 1), clean_epoch=-1) for b in (1, 2, 3)}}
LEFT = {"last_epochs": {}, "brokers": GONE, "assignments": {T: ReplicaAssignment((ONE, TWO))}}
COULD_NOT: Any = {"replica_state_overrides": {T: {ONE: INELIGIBLE}}}
GOING: dict[str, Any] = {**COULD_NOT, "topics_to_delete": {"t"}}
LEAVING: dict[str, Any] = {**COULD_NOT, "removals": {T: {ONE: 0}}}
POLLED: dict[str, Any] = {"polls": {T: SimpleNamespace(deadline_ms=700)}}
UNLED: dict[str, Any] = {"leaderships": {T: state(leader=-1)}}
AGAIN: dict[str, int] = {topic_deletion.RETRY: 900, replica_removal.RETRY: 900, unclean.DEADLINE: 700}
BAD: dict[str, tuple[str, list[tuple[Any, tuple[Any, ...]]]]] = {
    "a poll outlives the election": ("GoneIsForgotten", [(POLLED | {"deadlines": AGAIN}, ())]),
    "a removal outlives its move": ("GoneIsForgotten", [(GOING | LEAVING | {"deadlines": AGAIN}, ())]),
    "a partition that there is not is on a failed disk": (
        "GoneIsForgotten",
        [({"offline_directories": {ONE: {U}}}, ())],
    ),
    "somebody who is not there was told to delete something": (
        "GoneIsRemembered",
        [({"pending_deletions_sent": {BrokerId(4): frozenset({U})}}, ())],
    ),
    "a poll has no end": ("TriesAgain", [({}, ()), (POLLED | UNLED, ())]),
    "it has a later one": ("TriesAgain", [(POLLED | UNLED | {"deadlines": {unclean.DEADLINE: 701}}, ())]),
    "a deletion that failed is not tried again": ("TriesAgain", [(GOING, ())]),
    "a removal that failed is not, but a deletion": (
        "TriesAgain",
        [(LEAVING | {"deadlines": {topic_deletion.RETRY: 900}}, ())],
    ),
    "the life in which a broker went is not remembered": ("GoneIsRemembered", [({}, ()), (LEFT, ())]),
    "an older one is": ("GoneIsRemembered", [({}, ()), ({**LEFT, "last_epochs": {THREE: 29}}, ())]),
    "it is still leaving": (
        "GoneIsRemembered",
        [({}, ()), ({**LEFT, "last_epochs": {THREE: 30}, "shutting_down_brokers": {3}}, ())],
    ),
    "what disks it lacks is still known": (
        "GoneIsRemembered",
        [({}, ()), ({**LEFT, "last_epochs": {THREE: 30}, "offline_directories": {THREE: {T}}}, ())],
    ),
    "a member of the ISR is said to have lost something": (
        "UncleanIsTold",
        [({}, ()), ({"leaderships": {T: state(4, leader=2, recovery=1)}}, ALL)],
    ),
    "one that was eligible is": (
        "UncleanIsTold",
        [(ALONE, ()), ({"leaderships": {T: state(4, leader=2, isr=(2,), recovery=1)}}, ALL)],
    ),
    "the last of the ISR is, and has not been away": (
        "UncleanIsTold",
        [(LAST, ()), (LEADS, ALL)],
    ),
    "it has, and nobody else was eligible": (
        "UncleanIsTold",
        [({"leaderships": {T: state(3, leader=-1, isr=(1,))}}, ()), (LEADS | BACK, ALL)],
    ),
    "one of two of the ISR is, and the other has not been away": (
        "UncleanIsTold",
        [(TWO_LAST, ()), (LEADS | BACK, ALL)],
    ),
    "one of two of the ISR is, that was stopped in order": (
        "UncleanIsTold",
        [
            (TWO_LAST, ()),
            (
                LEADS
                | {
                    "brokers": {
                        b: SimpleNamespace(epoch=10 * b + (b < 3), clean_epoch=10 * b) for b in (1, 2, 3)
                    },
                    "last_epochs": {b: 10 * b for b in (1, 2, 3)},
                },
                ALL,
            ),
        ],
    ),
    "somebody from outside leads, and nothing is said": (
        "UncleanIsTold",
        [(ALONE, ()), ({"leaderships": {T: state(4, leader=3, isr=(3,), elr=(1, 2))}}, ALL)],
    ),
    "who leaves the ISR is not eligible": (
        "EligibleIsKept",
        [({"leaderships": {T: state(3, isr=(1, 2))}}, ()), ({"leaderships": {T: state(3, isr=(1,))}}, ())],
    ),
    "one of two is not": (
        "EligibleIsKept",
        [
            ({"min_insync_replicas": lambda topic: 3}, ()),
            (
                {
                    "leaderships": {T: state(3, isr=(1,), elr=(2,))},
                    "min_insync_replicas": lambda topic: 3,
                },
                (),
            ),
        ],
    ),
    "the second one to leave is not": (
        "EligibleIsKept",
        [
            ({"leaderships": {T: state(3, isr=(1, 3))}}, ()),
            ({"leaderships": {T: state(4, isr=(1,))}}, ALL),
        ],
    ),
    "nobody is told of an epoch": ("EpochIsTold", [({}, ()), (ANEW, ())]),
    "the leader is not": ("EpochIsTold", [({}, ()), (ANEW, (told(2), told(3)))]),
    "a follower is not": ("EpochIsTold", [({}, ()), (ANEW, (told(1), told(2)))]),
    "they were told of the one before": (
        "EpochIsTold",
        [({}, ()), (ANEW, ALL), ({"leaderships": {T: state(5)}}, ())],
    ),
    "who has led and is leaving is not": (
        "EpochIsTold",
        [
            ({}, ()),
            ({"leaderships": {T: state(4, leader=2)}, "shutting_down_brokers": {1}}, (told(2), told(3))),
        ],
    ),
    "somebody is eligible beside an ISR that is large enough": (
        "EligibleWhileTooFew",
        [({}, ()), ({"leaderships": {T: state(3, isr=(1, 2), elr=(3,), partition_epoch=6)}}, ())],
    ),
    "it is large enough again": (
        "EligibleWhileTooFew",
        [(ALONE, ()), ({"leaderships": {T: state(3, isr=(1, 3), elr=(2,), partition_epoch=7)}}, ())],
    ),
    "one is enough": (
        "EligibleWhileTooFew",
        [({}, ()), ({**ALONE, "min_insync_replicas": lambda topic: 1}, ())],
    ),
    "who is eligible was restarted": ("EligibleInItsLife", [(back(20), ()), (back(21), ())]),
    "nobody saw it go": (
        "EligibleInItsLife",
        [(back(20), ()), (ALONE | {"brokers": {1: GONE[1]}}, ()), (back(21), ())],
    ),
    "it has stopped cleanly in a life before": ("EligibleInItsLife", [(back(20), ()), (back(22, 21), ())]),
    "a removed replica is forgotten": (
        "LeaverIsRemembered",
        [(OWES, ()), ({**OWES, "removals": {}, "brokers": GONE}, ())],
    ),
    "another one is remembered": (
        "LeaverIsRemembered",
        [(OWES, ()), ({**OWES, "removals": {}, "brokers": GONE, "pending_deletions": {THREE: {U: b""}}}, ())],
    ),
    "on another broker it is": (
        "LeaverIsRemembered",
        [(OWES, ()), ({**OWES, "removals": {}, "brokers": GONE, "pending_deletions": {TWO: {T: b""}}}, ())],
    ),
    "a reassignment waits for nobody": ("ReassignmentGoesOn", [({"reassignments": {T: STOPPING}}, ())]),
    "any more": (
        "ReassignmentGoesOn",
        [
            ({**OWES, "reassignments": {T: STOPPING}}, ()),
            ({**OWES, "removals": {}, "reassignments": {T: STOPPING}}, ()),
        ],
    ),
    "for whom another one waits": (
        "ReassignmentGoesOn",
        [
            (
                {
                    "removals": {U: {THREE: 0}},
                    "reassignments": {T: STOPPING},
                    "assignments": {one: ReplicaAssignment((ONE, TWO, THREE)) for one in (T, U)},
                },
                (),
            )
        ],
    ),
}
GOOD: dict[str, list[tuple[Any, tuple[Any, ...]]]] = {
    "a poll ends": [(POLLED | UNLED | {"deadlines": AGAIN}, ())],
    "what failed is tried again": [
        (GOING | {"deadlines": AGAIN}, ()),
        (LEAVING | {"topics_to_delete": set(), "deadlines": AGAIN}, ()),
    ],
    "it is told when its broker returns": [
        (
            {
                **GOING,
                "brokers": {2: SimpleNamespace(epoch=20, clean_epoch=-1)},
                "last_epochs": {1: 10, 3: 30},
            },
            (),
        ),
    ],
    "who left while the others were enough is not eligible": [
        ({}, ()),
        ({"leaderships": {T: state(3, isr=(1,), elr=(2,))}}, ()),
    ],
    "who is eligible has come back": [
        (ALONE, ()),
        ({**back(21), "leaderships": {T: state(3, isr=(1,))}}, ()),
    ],
    "who was eligible beside an ISR that was large enough": [
        ({"leaderships": {T: state(3, isr=(1, 2))}}, ()),
        ({"leaderships": {T: state(3, isr=(1,), elr=(2,))}}, ()),
    ],
    "who was eligible in its former life is elected uncleanly as it comes back": [
        (ALONE, ()),
        ({**back(21), "leaderships": {T: state(4, leader=2, isr=(2,), recovery=1)}}, (told(1), told(2))),
    ],
    "the last of the ISR is, beside somebody who is eligible and away": [
        (LAST, ()),
        (LEADS | BACK, ALL),
    ],
    "nor is it of one of two that were away": [
        (TWO_LAST, ()),
        (
            LEADS
            | {"brokers": {b: SimpleNamespace(epoch=10 * b + (b < 3), clean_epoch=-1) for b in (1, 2, 3)}},
            ALL,
        ),
    ],
    "an unclean election that is told": [
        (ALONE, ()),
        ({"leaderships": {T: state(4, leader=3, isr=(3,), recovery=1)}}, ALL),
        ({"leaderships": {T: state(5, leader=3, isr=(3,), recovery=1)}}, ALL),
    ],
    "everybody is told": [({}, ()), (ANEW, ALL)],
    "one is told to stop": [({}, ()), (ANEW, (told(1), told(2), told(3, StopReplicaRequest)))],
    "who is dead is not told": [({}, ()), ({**ANEW, "brokers": GONE}, (told(1), told(2)))],
    "nor one that was told to delete its replica": [
        ({}, ()),
        ({**ANEW, "replica_state": lambda partition, broker: STATES[broker]}, (told(1), told(2))),
    ],
    "nor one that is leaving": [({}, ()), ({**ANEW, "shutting_down_brokers": {3}}, (told(1), told(2)))],
    "of a topic that goes nobody is": [({}, ()), ({**ANEW, "topics_to_delete": {"t"}}, ())],
    "a replica on a failed disk is not": [
        ({}, ()),
        ({**ANEW, "offline_directories": {THREE: {T}}}, (told(1), told(2))),
    ],
    "nobody leads": [({}, ()), ({"leaderships": {T: state(4, leader=-1)}}, ())],
    "the ISR changed, and not the epoch": [({"leaderships": {T: state(3, isr=(1, 2))}}, ()), (ALONE, ())],
    "the minimum was lowered since": [(ALONE, ()), ({**ALONE, "min_insync_replicas": lambda topic: 1}, ())],
    "who is eligible is back after a clean stop": [(back(20), ()), (back(21, 20), ())],
    "it has deleted its data": [(OWES, ()), ({**OWES, "removals": {}}, ())],
    "it is remembered": [
        (OWES, ()),
        ({**OWES, "removals": {}, "brokers": GONE, "pending_deletions": {THREE: {T: b""}}}, ()),
    ],
    "it was assigned again": [(OWES, ()), ({"brokers": GONE}, ())],
    "a reassignment waits for a replica that deletes its data": [
        ({**OWES, "reassignments": {T: STOPPING}}, ())
    ],
}


@each(BAD)
def test_a_duty_that_is_not_done_is_named(why: str) -> None:
    name, steps = BAD[why]
    assert set(names(*steps)) == {name}


@each(GOOD)
def test_what_is_owed_to_nobody_passes(why: str) -> None:
    assert names(*GOOD[why]) == []


def queue(*requests: object, epoch: int = 20) -> tuple[Queue, ...]:
    return (Queue(TWO, BrokerEpoch(epoch), requests),)


def test_a_queue_in_another_order_or_of_another_life_is_named() -> None:
    first, second, third = told(1), told(2), told(3)

    def found(*queues: tuple[Queue, ...]) -> list[str]:
        return names(*(({}, ()) for _ in queues), queues=queues)

    assert found(queue(first, second), queue(second, first)) == ["QueueIsKept"]
    assert found(queue(first, second), queue(second, third, first)) == ["QueueIsKept"]
    assert found(queue(first), queue(second, first)) == ["QueueIsKept"]
    assert found(queue(first, second, third), queue(first, third, second)) == ["QueueIsKept"]
    assert found(queue(first, epoch=19)) == found(queue(epoch=21)) == ["QueueIsKept"]
    assert found(queue(first, second), queue(second, third)) == found(queue(first), queue(third)) == []
