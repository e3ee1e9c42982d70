"""Bugs of transactions that the exhaustive search finds (docs/explore.md): each breaks one invariant within its scope."""

from typing import NamedTuple

from odradek.sim.explore.transaction_values import TransactionScope
from tests.mutants.edit import Edit

ONE = TransactionScope(attempts=(1,))
UNCUT = ONE._replace(lost_connections=0)
ALIVE = ONE._replace(crashes=0)
TWICE = TransactionScope(attempts=(2,), lost_connections=0, time_outs=0)
TWO = TransactionScope(attempts=(1, 1), lost_connections=0, time_outs=0)

DECIDE = "room.write(name, decided, last_epoch, Decided(asked, decided), now_ms)"
ROOM = "__import__('odradek.coordinator.transaction_room', fromlist=['Completed'])"
EFFECTS = "__import__('odradek.coordinator.transaction_effects', fromlist=['Markers'])"


class TransactionMutant(NamedTuple):
    name: str
    what: str
    edits: tuple[Edit, ...]
    breaks: str
    scope: TransactionScope = ONE


SEARCHED_TRANSACTIONS = (
    TransactionMutant(
        "complete_at_the_first_marker",
        "a transaction is complete as soon as one partition has its marker",
        (Edit("coordinator.transaction_room:Room.marked", "left -= partitions", "left.clear()"),),
        "MarkersBeforeComplete",
    ),
    TransactionMutant(
        "decision_forgotten_at_load",
        "whoever loads a decision does not carry it out",
        (
            Edit(
                "coordinator.transaction_coordinator:TransactionCoordinator.__init__",
                "list(reversed(stored.prepared))",
                "[]",
            ),
        ),
        "Stuck",
    ),
    TransactionMutant(
        "marks_before_it_is_decided",
        "markers are sent before the decision is committed",
        (
            Edit(
                "coordinator.ending:_decide",
                DECIDE,
                f"({DECIDE}, room._markers.append({EFFECTS}.Markers(name, decided.producer_id, decided.epoch, "
                "state.name == 'PREPARE_COMMIT', decided.partitions)))",
            ),
        ),
        "OneFate",
        UNCUT,
    ),
    TransactionMutant(
        "told_before_it_is_decided",
        "EndTxn is answered before the decision is committed",
        (
            Edit(
                "coordinator.ending:_decide",
                DECIDE,
                f"(room.write(name, decided, last_epoch, {ROOM}.Completed(name), now_ms), "
                "room.answer(asked.call, _ended(asked, decided)))",
            ),
        ),
        "OneFate",
        UNCUT,
    ),
    TransactionMutant(
        "any_epoch_owns",
        "whoever knows the producer id owns the transaction, in whatever epoch",
        (Edit("coordinator.transaction_checks:why_not_owner", "value.epoch == epoch", "True"),),
        "OneFate",
        ALIVE,
    ),
    TransactionMutant(
        "any_epoch_adds",
        "a leader has a partition added for whoever knows the producer id, in whatever epoch (`transaction.version` 2)",
        (Edit("coordinator.transaction_checks:why_not_owner", "value.epoch == epoch", "True"),),
        "FencedWrite",
        TWO._replace(bumps=True),
    ),
    TransactionMutant(
        "aborted_in_its_own_epoch",
        "what times out is aborted in the epoch of its owner, who goes on",
        (Edit("coordinator.ending:abort_from_here", "value.epoch + 1", "value.epoch"),),
        "OneFate",
        ALIVE,
    ),
    TransactionMutant(
        "the_same_epoch_again",
        "whoever takes an id over gets the epoch that its owner has",
        (
            Edit(
                "coordinator.initialising:_next",
                "Turn(value.producer_id, value.epoch + 1, NO_EPOCH, before)",
                "Turn(value.producer_id, value.epoch, NO_EPOCH, before)",
            ),
        ),
        "OneFate",
        TWO._replace(crashes=0),
    ),
    TransactionMutant(
        "a_former_coordinator_marks",
        "a log takes the marker of a coordinator that is over",
        (
            Edit(
                "log.producers:Producers.check_marker",
                "marker.coordinator_epoch < producer.coordinator_epoch",
                "False",
            ),
        ),
        "OneFate",
        TWICE,
    ),
    TransactionMutant(
        "completed_as_the_other",
        "what was aborted is complete as committed",
        (
            Edit("coordinator.transaction_states:check_transition", "new not in legal", "False"),
            Edit(
                "coordinator.transaction_room:Room.complete",
                "PREPARED[value.state]",
                "PREPARED[next(iter(PREPARED))]",
            ),
        ),
        "DecisionKept",
    ),
    TransactionMutant(
        "fenced_and_writes",
        "a leader takes the batch of an epoch that is over into the transaction that is open",
        (
            Edit(
                "broker.verifications:has_open",
                "known.producer_epoch == writer.epoch",
                "True",
            ),
            Edit("log.producers:Producers.check", "epoch < producer.producer_epoch", "False"),
        ),
        "FencedWrite",
        TWO._replace(crashes=0),
    ),
)
