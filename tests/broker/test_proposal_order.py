"""AlterPartition requests of one leader that come late: what was read since counts."""

from odradek.broker import effects as fx
from odradek.broker.answers import CloseConnection
from odradek.broker.proposal_order import MOST_REMEMBERED, ProposalOrder
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerEpoch, BrokerId
from odradek.protocol.headers import encode_request
from odradek.protocol.messages import alter_partition as ap
from tests.broker.world import Pending, World, told

ALTER_PARTITION = 56


def read(order: ProposalOrder, number: int, *, broker: int = 1, life: int = 7) -> bool:
    """Whether it is obeyed."""
    return not order.is_late(BrokerId(broker), BrokerEpoch(life), number)


def test_numbers_rise_within_the_life_of_a_leader() -> None:
    order = ProposalOrder()
    assert [read(order, n) for n in (3, 5, 4, 5, 3, 6)] == [True, True, False, False, False, True]


def test_another_leader_and_another_life_have_numbers_of_their_own() -> None:
    order = ProposalOrder()
    assert read(order, 50)
    assert read(order, 0, broker=2) and read(order, 0, life=8)
    assert not read(order, 49)


def test_the_numbers_go_round() -> None:
    order = ProposalOrder()
    assert read(order, 0x7FFFFFFF) and read(order, -0x80000000)
    assert not read(order, 0x7FFFFFFF)


def test_what_is_remembered_is_bounded_and_the_oldest_goes_first() -> None:
    order = ProposalOrder()
    assert read(order, 9) and read(order, 9, life=8)
    assert read(order, 10)  # of the two the later one now
    for life in range(MOST_REMEMBERED - 1):
        assert read(order, 0, broker=3, life=life)
    assert len(order._last) == MOST_REMEMBERED
    assert not read(order, 9) and read(order, 9, life=8)


def test_one_that_comes_late_is_no_question_to_the_controller(world: World) -> None:
    asked = ap.AlterPartitionRequest(broker_id=2, broker_epoch=22).encode(3)
    sent = []
    for number in (4, 3):
        frame = encode_request(ALTER_PARTITION, 3, number, "2", asked)
        pending = Pending(ap.AlterPartitionResponse, 3)
        sent.append(world.send_frame(1, frame[4:], pending, world.connection()))
    world.settle()
    assert len(told(world, fx.ControllerRequest)) == 1
    assert sent[0].result is None
    assert isinstance(sent[1].result, CloseConnection) and "comes late" in sent[1].result.reason


def test_whoever_is_no_controller_remembers_nothing(world: World) -> None:
    request = ap.AlterPartitionRequest(broker_id=1, broker_epoch=11)
    for _ in range(2):
        assert world.call(2, request, 3).error_code == ErrorCode.NOT_CONTROLLER
    assert not world[2].broker.proposal_order._last
