"""What controllers tell brokers: requests made by hand, each wrong in one field, and those of a world."""

from types import SimpleNamespace
from typing import Any

from odradek.controller.broker_requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from odradek.model.cluster import BrokerRegistration, ReplicaAssignment
from odradek.model.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from odradek.sim.observed.controller_tellings import ControllerTellings
from odradek.sim.plan import Fault
from odradek.sim.run import CORRECTNESS, run
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.test_controller_duties import state
from tests.sim.test_further_faults import plan_with
from tests.support import each

T = TopicPartition("t", 0)
ONE, TWO, THREE = map(BrokerId, (1, 2, 3))
ALL = (ONE, TWO, THREE)
EPOCH = ControllerEpoch(1)
ID: Any = b"0" * 16
SAID = LeaderAndIsrPartition(T, ID, EPOCH, ONE, LeaderEpoch(3), ALL, 5, ALL, (), (), False, 0, ())
SHOWN = UpdateMetadataPartition(T, ID, EPOCH, ONE, LeaderEpoch(3), ALL, 5, ALL, ())
STOPPED = StopReplicaPartition(T, LeaderEpoch(3), False)


def context(**changes: Any) -> Any:
    brokers = {b: BrokerRegistration(b, BrokerEpoch(10 * b), ()) for b in ALL}
    usual = {
        "broker": ONE,
        "controller_epoch": EPOCH,
        "brokers": brokers,
        "leaderships": {T: state()},
        "assignments": {T: ReplicaAssignment(ALL)},
        "topics": {"t": SimpleNamespace(topic_id=ID)},
        "shutting_down_brokers": set(),
        "offline_directories": {},
        "pending_deletions": {},
        "topics_to_delete": set(),
    }
    made = SimpleNamespace(**usual | changes)
    made.registrations = lambda: tuple(made.brokers.values())
    made.is_online = lambda broker, partition: (
        broker in made.brokers and broker not in made.shutting_down_brokers
    )
    return made


def led(said: LeaderAndIsrPartition = SAID, *, broker_epoch: int = 20, epoch: int = 1, by: int = 1) -> Any:
    return LeaderAndIsrRequest(
        TWO, BrokerEpoch(broker_epoch), BrokerId(by), ControllerEpoch(epoch), (said,), ()
    )


def shown(said: UpdateMetadataPartition = SHOWN, *, live: tuple[BrokerId, ...] = ALL) -> Any:
    registered = tuple(BrokerRegistration(b, BrokerEpoch(10 * b), ()) for b in live)
    return UpdateMetadataRequest(TWO, BrokerEpoch(20), ONE, EPOCH, (said,), registered)


def stopped(said: StopReplicaPartition = STOPPED) -> Any:
    return StopReplicaRequest(TWO, BrokerEpoch(20), ONE, EPOCH, (said,))


def found(*requests: Any, **changes: Any) -> list[str]:
    """Of a controller that rested before, and has changed so since."""
    one, tellings = context(), ControllerTellings()
    assert tellings.observe(one, (), is_resting=True) == []
    vars(one).update(changes)
    return [anomaly.name for anomaly in tellings.observe(one, requests, is_resting=True)]


BAD: dict[str, Any] = {
    "of another controller": led(by=3),
    "of an older controller epoch": led(epoch=0),
    "for another life of the broker": led(broker_epoch=19),
    "another leader": led(SAID._replace(leader=TWO)),
    "a later leader epoch": led(SAID._replace(leader_epoch=LeaderEpoch(4))),
    "another ISR": led(SAID._replace(isr=ALL[:2])),
    "another recovery state": led(SAID._replace(leader_recovery_state=1)),
    "who is not eligible": led(SAID._replace(elr=(THREE,))),
    "too few replicas": led(SAID._replace(replicas=ALL[:2])),
    "replicas that are not added": led(SAID._replace(adding_replicas=(THREE,))),
    "replicas that are not removed": led(SAID._replace(removing_replicas=(THREE,))),
    "another topic": led(SAID._replace(topic_id=b"1" * 16)),
    "too few live brokers": shown(live=ALL[:2]),
    "another leader in metadata": shown(SHOWN._replace(leader=THREE)),
    "a later partition epoch": shown(SHOWN._replace(partition_epoch=6)),
    "one that is not offline": shown(SHOWN._replace(offline_replicas=(TWO,))),
    "a stop in a later epoch": stopped(StopReplicaPartition(T, LeaderEpoch(4), False)),
}


@each(BAD)
def test_what_is_told_and_is_not_so_is_named(why: str) -> None:
    assert found(BAD[why]) == ["TellsWhatIs"]


def test_what_is_so_passes_and_what_was_so_when_it_was_written() -> None:
    assert found(led(), shown(), stopped(), led(SAID._replace(is_new=True))) == []
    assert found(led(SAID._replace(leader_epoch=LeaderEpoch(2), partition_epoch=4, leader=TWO))) == []
    assert found(stopped(StopReplicaPartition(T, LeaderEpoch(-2), True))) == [], "of a deletion"
    fewer = ReplicaAssignment(ALL, removing_replicas=(THREE,))
    assert found(led(), shown(), assignments={T: fewer}) == []
    new = BrokerRegistration(BrokerId(4), BrokerEpoch(40), ())
    assert found(shown(live=ALL[:2]), brokers={**context().brokers, BrokerId(4): new}) == []


def test_what_several_are_told_is_judged_once() -> None:
    wrong = led(SAID._replace(leader=TWO))
    assert found(wrong, wrong) == ["TellsWhatIs"]


WITHOUT_ADDING = Edit("controller.requests:_leader_and_isr_partitions", "assignment.adding_replicas", "()")


def test_a_field_that_is_left_out_is_found_in_a_world() -> None:
    plan = plan_with(Fault(1.0, "reassign", 0.3, 0.5), Fault(2.0, "reassign", 0.7, 0.2))
    with applied([WITHOUT_ADDING]):
        outcome = run(plan)
    assert (outcome.code, {anomaly.name for anomaly in outcome.anomalies}) == (CORRECTNESS, {"TellsWhatIs"})
