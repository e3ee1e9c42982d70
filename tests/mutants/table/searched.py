"""What the exhaustive search finds (docs/explore.md), the shortest counter-example of each known by its length.

While one is applied a *new* `Model` must be made, for a model remembers what it asked (`tests.mutants.searching`).
"""

from odradek.sim.explore.model import Scope
from odradek.sim.explore.scopes import SCOPES
from tests.mutants.edit import Edit
from tests.mutants.mutant import Mutant, Search
from tests.mutants.table import kafka_controller, kafka_replication, own

QUIET = Scope(
    broker_crashes=0, session_expirations=0, lost_connections=0, controller_crashes=0, partition_epochs=5
)
TWO = QUIET._replace(brokers=2)
# Enough for what one election does: another one doubles the states, and no shorter list of actions needs it.
ONE_ELECTION = QUIET._replace(leader_epochs=2)
DOUBT = SCOPES["in-doubt"]._replace(
    broker_crashes=1, session_expirations=0, lost_connections=0, controller_crashes=0
)
# Whoever is asked answers, and loses no more than the power takes.
ANSWERED = DOUBT._replace(broker_crashes=0)
CUT = TWO._replace(power_cuts=1, broker_crashes=1, records=1, partition_epochs=3, min_insync_replicas=2)
# Its disk, and the proposal that has it in the ISR.
LOST = TWO._replace(records=1, leader_epochs=1, partition_epochs=3, broker_crashes=1, lost_disks=1)
SHORT = QUIET._replace(records=1, leader_epochs=2, partition_epochs=4)


def _as(name: str) -> tuple[Edit, ...]:
    """Put in as this exhibit is."""
    of_museum = (*kafka_replication.EXHIBITS, *kafka_controller.EXHIBITS, *own.EXHIBITS)
    return next(mutant.edits for mutant in of_museum if mutant.name == name)


SEARCHED: tuple[Mutant, ...] = (
    Mutant(
        "cut_to_high_watermark",
        "before KIP-101: a new follower cuts its log to its own high watermark, and trusts what is left",
        _as("1211"),
        search=Search("StrongIsr", ONE_ELECTION._replace(records=1, partition_epochs=2)),
    ),
    Mutant(
        "mark_over_committed_isr",
        "the high watermark does not wait for a replica the controller was asked to add",
        _as("8836 (2)"),
        search=Search("StrongIsr", TWO),
    ),
    Mutant(
        "shrink_before_the_answer",
        "a leader counts on a smaller ISR before the controller has stored it",
        _as("8836"),
        search=Search("StrongIsr", QUIET),
    ),
    Mutant(
        "no_epoch_in_fetch",
        "before KIP-320: a fetch does not say which leader it means, and a log takes records of any epoch",
        (
            Edit(
                "broker.fetch_sessions:FetchSession.want",
                "wanted.current_leader_epoch = current_leader_epoch",
                "wanted.current_leader_epoch = -1",
            ),
            Edit(
                "log.appending:AppendableLog.append_as_follower",
                "header.leader_epoch > leader_epoch",
                "False",
            ),
        ),
        search=Search("TypeOk", TWO),
    ),
    Mutant(
        "counted_before_cut",
        "KAFKA-13141: a fetch that has to be answered with a divergence moves the follower's position all the same",
        _as("13141"),
        search=Search("StrongIsr", ONE_ELECTION),
    ),
    Mutant(
        "elect_anybody",
        "a leader from outside the ISR, although nobody allowed it",
        _as("4623"),
        search=Search("StrongIsr", TWO._replace(session_expirations=1)),
    ),
    Mutant(
        "joins_below_the_epoch",
        "KAFKA-7128: a follower joins the ISR at the high watermark, below the start of the leader's epoch",
        _as("7128"),
        search=Search("StrongIsr", SHORT),
    ),
    Mutant(
        "rolls_back_on_doubt",
        "a leader takes INVALID_UPDATE_VERSION or FENCED_LEADER_EPOCH for a refusal of its proposal",
        (
            Edit(
                "replication.partition:Partition.isr_answered",
                "answer.error in ROLL_BACK",
                "answer.error in {*ROLL_BACK, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH}",
            ),
        ),
        search=Search("StrongIsr", TWO._replace(records=1, leader_epochs=2)),
    ),
    Mutant(
        "any_incarnation_joins",
        "before KIP-841 and KIP-903: the controller does not ask whether a new member lives, nor which life it is in",
        _as("13916"),
        search=Search("StrongIsr", LOST),
    ),
    Mutant(
        "names_the_next_life",
        "H1: a proposal that is sent again names the follower's newest incarnation, which nobody found in sync",
        _as("H1"),
        search=Search("StrongIsr", LOST),
    ),
    Mutant(
        "shorter_is_a_prefix",
        "KAFKA-6361: a leader that does not know the follower's epoch takes its log for a prefix",
        _as("6361"),
        search=Search("StrongIsr", ONE_ELECTION),
    ),
    Mutant(
        "writes_without_fence",
        "KAFKA-6082: the store takes a write of a controller whether or not another was elected since",
        _as("6082"),
        search=Search("I10", TWO._replace(deposals=1)),
    ),
    Mutant(
        "bounced_is_as_before",
        "a broker that was away and back before anybody looked keeps its place in the ISR, with what it has left",
        _as("7235"),
        search=Search("I8", CUT),
    ),
    Mutant(
        "eligible_in_its_next_life",
        "KIP-966: an eligible replica stays eligible although it stopped without having flushed",
        (
            Edit(
                "controller.eligible:plan_lost",
                "[broker for broker in brokers if broker in current.elr]",
                "[]",
            ),
        ),
        search=Search("I8", CUT),
    ),
    Mutant(
        "commits_alone",
        "KAFKA-15583: a leader commits although its ISR is too small, while somebody who lacks what it commits is eligible",
        (
            Edit(
                "replication.partition:Partition._measure_min_isr",
                "len(self.state.isr) < self.effective_min_isr or self.has_eligible",
                "False",
            ),
        ),
        search=Search("I8", CUT._replace(power_cuts=1, broker_crashes=0)),
    ),
    Mutant(
        "takes_an_answer_twice",
        "an answer to a fetch sent before the last one is taken for the answer to that; a real log would refuse the records it "
        "has already, the one of the search takes what it is given",
        (
            Edit(
                "replication.follower:FollowerFetcher._partition_fetched",
                "number < followed.named_at",
                "False",
            ),
        ),
        search=Search(
            "ValidHighWatermark", TWO._replace(leader_epochs=1, partition_epochs=2, second_fetches=True)
        ),
    ),
    Mutant(
        "fewest_lead",
        "of those that may all have lost records the one that holds the fewest leads",
        (
            Edit(
                "controller.unclean:ranking",
                "sorted(answered, key=lambda broker: ends[broker], reverse=True)",
                "sorted(answered, key=lambda broker: ends[broker])",
            ),
        ),
        search=Search("I8", ANSWERED),
    ),
    Mutant(
        "one_answer_suffices",
        "of those that may all have lost records the first one that says what it holds leads",
        (
            Edit(
                "controller.unclean:tasks_of_answer",
                "_is_known(poll, context.brokers)",
                "True",
            ),
        ),
        search=Search("I8", ANSWERED),
    ),
    Mutant(
        "former_answers_count",
        "what a broker said before it lost its records is taken for the answer to the question that was asked because it was restarted",
        (Edit("controller.unclean:tasks_of_answer", "event.number not in (None, poll.number)", "False"),),
        search=Search("I8", ANSWERED),
    ),
    Mutant(
        "not_asked_again",
        "a broker that lost its records after it had said what it holds is not asked again",
        (
            Edit(
                "controller.unclean:plan_asked_again",
                "plan.partition_state(topic_partition) is PartitionState.OFFLINE",
                "False",
            ),
        ),
        search=Search("I8", ANSWERED),
    ),
    Mutant(
        "leads_without_the_isr",
        "one that was last known to be eligible leads while no member of the ISR, which may have more, is live",
        (
            Edit(
                "controller.plan:Plan.contenders",
                "tuple([*members, *others]) if members else ()",
                "tuple([*members, *others])",
            ),
        ),
        search=Search("I8", DOUBT),
    ),
    Mutant(
        "nobody_is_asked",
        "where all of an ISR may have lost records, a preferred election or the first that is live decides, and nobody is asked",
        (
            Edit(
                "controller.plan:Plan.must_ask",
                "not question.candidates or (len(question.candidates) < 2 and poll is None)",
                "True",
            ),
        ),
        search=Search("I8", DOUBT),
    ),
    Mutant(
        "leads_though_one_is_eligible",
        "a member of the ISR that may have lost what it held leads, although one that is eligible has everything",
        (
            Edit(
                "controller.election:members_that_may_lead",
                "not eligible or not current.last_known_elr",
                "True",
            ),
        ),
        search=Search("I8", CUT),
    ),
)
