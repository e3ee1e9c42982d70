"""Nothing is granted to strangers, and what is granted all the same is found."""

from functools import cache
from typing import Any

import pytest

from odradek.broker.proposal_order import ProposalOrder
from odradek.log import validation
from odradek.model.errors import ProtocolError
from odradek.model.ids import BrokerEpoch, BrokerId
from odradek.protocol.messages.alter_partition import AlterPartitionRequest
from odradek.sim.clients.client import Address, RequestFailed, SimClient
from odradek.sim.faults import strangers
from odradek.sim.faults.injection import TABLE, inject
from odradek.sim.faults.strangers import TABLE as OF_STRANGERS
from odradek.sim.faults.strangers import Claim, hostile
from odradek.sim.plan import ACTIONS, OPERATIONS, Fault
from odradek.sim.run import CORRECTNESS, OK, Outcome, describe, run
from odradek.sim.world import SimBroker, World
from tests.log.logs import config
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.test_further_faults import notes, plan_with

NOW_MS = 1_700_000_000_000
CLAIMS = ("false_control_requests", "false_isr_changes", "false_followers", "hostile_batches")


@pytest.mark.parametrize(
    ("what", "records"), list(hostile(NOW_MS)), ids=lambda value: value if isinstance(value, str) else ""
)
def test_no_hostile_batch_is_one(what: str, records: bytes) -> None:
    with pytest.raises(ProtocolError):
        validation.checked(memoryview(records), config(), now_ms=NOW_MS)


@cache
def after_claims(kind: str) -> Outcome:
    return run(plan_with(Fault(2.0, kind, 0.1, 0.4, 0.0), duration_s=3.5))


@pytest.mark.parametrize("kind", CLAIMS)
def test_a_claim_is_made_and_refused(kind: str) -> None:
    outcome = after_claims(kind)

    assert outcome.code == OK, describe(outcome)
    refused = notes(outcome, "stranger to ")
    assert len(refused) >= 3
    assert not any(text.endswith(": NONE") for text in refused)


@pytest.mark.parametrize("kind", ["false_isr_changes", "false_followers"])
def test_no_leader_epoch_that_is_claimed_comes_true_before_the_claim_is_read(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is asked may stand still meanwhile, and reads first what it was told of later leader epochs."""
    claimed: list[int] = []

    def hear(world: World, broker: SimBroker, *claims: Claim, **_: object) -> None:
        for claim in claims:
            if "leader epoch" in claim.what:
                asked = claim.message.topics[0].partitions[0]
                claimed.append(
                    asked.leader_epoch if kind == "false_isr_changes" else asked.current_leader_epoch
                )

    monkeypatch.setattr(strangers, "_ask", hear)
    outcome = run(plan_with(Fault(2.0, kind, 0.1, 0.4, 0.0), duration_s=3.5))

    assert claimed and min(claimed) > outcome.events, "each rise of a leader epoch is an event at least"


@pytest.mark.parametrize("earlier", [(), (Fault(0.5, "bounce", 0.4, 0.4),)])
def test_every_claim_about_an_isr_is_looked_at(earlier: tuple[Fault, ...]) -> None:
    """A controller closes the connection of what is numbered below a proposal that it has read of the same broker. So of two claims
    for one broker one was looked at, and of a broker that had proposed something before none."""
    outcome = run(plan_with(*earlier, Fault(2.0, "false_isr_changes", 0.1, 0.4, 0.0), duration_s=3.5))

    told = {text.split(": ")[1]: text.split(": ")[2] for text in notes(outcome, "stranger to ")}
    assert told == {
        "AlterPartition with a member in a life that is over": "INELIGIBLE_REPLICA",
        "AlterPartition of a leader epoch that nobody has": "NOT_CONTROLLER",
        "AlterPartition of a life that is over": "STALE_BROKER_EPOCH",
        "AlterPartition of no broker": "STALE_BROKER_EPOCH",
        "ControlledShutdown of a life that is over": "STALE_BROKER_EPOCH",
    }


def test_who_is_claimed_to_be_asking_is_heard_itself_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims were numbered above the proposals of all brokers. What was in their name silenced it until it had come as far."""
    ahead: list[int] = []
    judged = ProposalOrder.is_late

    def is_late(order: ProposalOrder, broker: BrokerId, epoch: BrokerEpoch, number: int) -> bool:
        last = order._last.get((broker, epoch))
        late = judged(order, broker, epoch, number)
        if late and last is not None:
            ahead.append(last - number)
        return late

    monkeypatch.setattr(ProposalOrder, "is_late", is_late)
    bounces = Fault(0.5, "bounce", 0.8, 0.4), Fault(4.3, "bounce", 0.4, 0.4)
    outcome = run(plan_with(*bounces, Fault(4.0, "false_isr_changes", 0.8, 0.4, 0.0), duration_s=8.0))

    assert outcome.code == OK, describe(outcome)
    assert max(ahead, default=0) <= 1, "two claims in its name at most, and it may have had the next number"


def test_a_controller_epoch_that_nobody_has_is_claimed_and_believed_by_nobody() -> None:
    """One that is believed makes its broker refuse every controller there will ever be, and each of them resign."""
    outcome = after_claims("false_control_requests")

    told = notes(outcome, "with a controller epoch that nobody has: STALE_CONTROLLER_EPOCH")
    assert (outcome.code, len(told)) == (OK, 3)


def test_a_member_in_a_life_that_is_over_is_claimed_as_well() -> None:
    plan = plan_with(Fault(1.2, "false_isr_changes", 0.1, 0.4, 0.0), duration_s=3.0)
    assert notes(run(plan), "a member in a life that is over: INELIGIBLE_REPLICA")
    lives = Edit(
        "controller.alter_partition:_is_eligible",
        "member.broker_epoch in (UNKNOWN_BROKER_EPOCH, context.broker_epoch(member.broker))",
        "True",
    )
    with applied([lives]):
        assert run(plan).code == CORRECTNESS


def test_what_is_granted_to_a_stranger_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "check_header", lambda *args, **options: None)
    outcome = run(plan_with(Fault(2.0, "hostile_batches", 0.9, 0.4, 0.0), duration_s=3.5))

    assert outcome.code == CORRECTNESS
    assert outcome.reason.startswith("StrangerIsRefused: b")


@pytest.mark.parametrize("kind", sorted(TABLE))
def test_a_fault_on_what_is_gone_already_does_nothing_and_is_not_counted(kind: str) -> None:
    world = World(1)
    assert not inject(world, Fault(0.0, kind, 0.5, 0.5, 1.0)) or kind in OF_NOBODY
    assert world.let_in == []
    world.loop.close()


# Of the store, of links, or of an operator who waits for brokers: there is none they could miss.
OF_NOBODY = {"roll", "store_restart", "lost_answers", "lost_calls", "cut_to_a_ring", "swizzle"}


def test_strangers_are_no_administrators() -> None:
    assert set(OF_STRANGERS).isdisjoint({*ACTIONS, *OPERATIONS})


def test_a_claim_that_is_not_answered_keeps_nobody_from_making_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = SimClient.asked
    unanswered: list[object] = []

    def asked_but_for_the_first(
        client: SimClient, address: Address, message: Any, version: int | None = None
    ) -> Any:
        if (
            isinstance(message, AlterPartitionRequest)
            and client.host.name == strangers.MACHINE
            and not unanswered
        ):
            unanswered.append(message)
            raise RequestFailed("the connection ended")
        return asked(client, address, message, version)

    monkeypatch.setattr(SimClient, "asked", asked_but_for_the_first)
    outcome = run(plan_with(Fault(2.0, "false_isr_changes", 0.1, 0.4, 0.0), duration_s=3.5))

    said = [text.split(": ")[2] for text in notes(outcome, "stranger to ")]
    assert len(said) >= 4 and said.count("no answer") == 1


@pytest.mark.parametrize("amount", [0.1, 0.3, 0.6, 0.9])
def test_an_address_that_nobody_can_connect_to_is_refused(amount: float) -> None:
    """`tests/mutants/table/shown_by_worlds.py` has it believed."""
    outcome = run(plan_with(Fault(2.0, "impossible_addresses", 0.1, amount, 0.0), duration_s=3.5))

    assert outcome.code == OK, describe(outcome)
    assert [text.split(": ")[2] for text in notes(outcome, "stranger to ")] == ["INVALID_REQUEST"]
