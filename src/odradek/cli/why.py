"""`odradek why orders-3`, `odradek why orders`, `odradek why billing`: what does not hold of a partition, a topic or a
group, what would mend it, as a tree of reasons.

Exit code 0 when everything one can ask for holds, else 1.
"""

import contextlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from odradek.cli.output import Failed, fail, json_option, print_json
from odradek.cli.silent_brokers import REMEDY, not_known_to_live
from odradek.cli.sources import Source, open_source, source_options
from odradek.model.counted import counted, numbered

if TYPE_CHECKING:
    from odradek.advisor.explain import Why
    from odradek.controller.context import ControllerContext
    from odradek.model.ids import BrokerId, TopicPartition

SHOWN_PARTITIONS = 5
SHOWN_TOPICS = 10
GROUPS_S = 3.0  # for their names, where one was mistyped


class NotThere(Failed):
    """No topic or partition has that name. `guess`: the one that is nearest."""

    def __init__(self, target: str, guess: str | None, topics: list[str]) -> None:
        more = ", ..." if len(topics) > SHOWN_TOPICS else ""
        self.guess = guess
        self.hint = f"topics there are: {', '.join(topics[:SHOWN_TOPICS]) or 'none'}{more}"
        hint = f"did you mean {guess}?" if guess else self.hint
        super().__init__(f"there is no topic or partition {target}; {hint}")


class Answer(NamedTuple):
    """One sentence, and the trees it was read off."""

    target: str
    sentence: str
    trees: tuple["Why", ...]
    slow: "Why | None" = None  # a hint: a partition that could be quicker is well all the same
    is_of_topic: bool = False  # beside those of its partitions

    @property
    def holds(self) -> bool:
        return all(tree.holds for tree in self.trees)

    @property
    def hint(self) -> str:
        if self.slow is None or self.slow.holds:
            return ""
        return f"{self.target} may be slower than need be: {'; '.join(map(_reason, _leaves(self.slow)))}."


@click.command()
@click.argument("target", metavar="PARTITION|TOPIC|GROUP")
@click.option(
    "--group", "is_group", is_flag=True, help="The name is that of a group, even if a topic has it too."
)
@source_options
@json_option
def why(
    target: str,
    is_group: bool,
    bootstrap: str,
    place: Path | None,
    journal: Path | None,
    at: str | None,
    as_json: bool,
) -> None:
    """Why a partition or topic is offline, under-replicated, stuck or slow, or why a group makes no progress; and the
    remedy."""
    source = open_source(bootstrap=bootstrap, place=place, journal=journal, at=at)
    unknown: list[str] = []
    live = source.answering or None
    if is_group and live is None:
        raise click.UsageError("--group asks a live cluster: a store or a journal knows nothing of groups")
    if live is not None and (is_group or not is_topic(source, target)):
        from odradek.cli.groups.why import answer

        code = answer(source, target, live, as_json=as_json)
        if code is not None:
            sys.exit(code)
        if is_group:
            fail_without_group(live, target)
        try:
            answers = answers_for(source, target, live, unknown)
        except NotThere as error:
            fail_without_either(live, target, error)
    else:
        answers = answers_for(source, target, live, unknown)
    source = replace(source, unknown=(*source.unknown, *unknown))
    wrong = [answer for answer in answers if not answer.holds]
    if as_json:
        print_json(as_dict(source, target, answers))
    else:
        show(source, target, answers, wrong)
    sys.exit(1 if wrong else 0)


def is_topic(source: Source, target: str) -> bool:
    """A topic, or a partition of one, as far as metadata tells."""
    there = {row.topic for row in source.snapshot.topics}
    return target in there or target.rpartition("-")[0] in there


def fail_without_group(bootstrap: str, name: str) -> None:
    from odradek.cli.groups.descriptions import no_such_group
    from odradek.client.sync import SyncClient

    with SyncClient(bootstrap) as client:
        no_such_group(client, name)


def fail_without_either(bootstrap: str, name: str, error: "NotThere") -> NoReturn:
    """Neither topic nor group: whichever is called nearly so."""
    from odradek.client.sync import SyncClient
    from odradek.client.sync_groups import list_groups
    from odradek.model.errors import OdradekError
    from odradek.model.settings import nearest

    groups: dict[str, Any] = {}
    with contextlib.suppress(OdradekError), SyncClient(bootstrap) as client:  # topics are known all the same
        groups = list_groups(client, timeout_s=GROUPS_S).groups
    guess = error.guess or nearest(name, groups)
    hint = f"did you mean {guess}?" if guess else error.hint
    fail(f"there is no topic, partition or group {name}; {hint}")


def answers_for(source: Source, target: str, bootstrap: str | None, unknown: list[str]) -> list[Answer]:
    """`unknown` gets what is not known besides."""
    from odradek.advisor.explain import Starts
    from odradek.advisor.explain_moves import why_not_deleted
    from odradek.advisor.explain_replication import partitions_led, why_partition, why_slow

    context = source.observed()
    is_controllers = source.replayed is not None
    remembered = None if bootstrap is None else controllers_own(bootstrap, unknown, source.silent)
    if remembered is not None and is_hidden(context, target) and _is_waiting(remembered, target):
        context, is_controllers = remembered, True
    topic, partitions = resolve(context, target)
    if context.is_queued_for_deletion(topic):
        tree = why_not_deleted(context, topic, knows_answers=is_controllers)
        return [Answer(topic, f"{topic} is being deleted, and is not gone yet: {tree.detail}.", (tree,))]
    measured, silent = {}, {}
    if bootstrap is not None:
        silent = members_that_are_silent(context, partitions, source.silent)
        if remembered is not None and any(where in context.removals for where in partitions):
            owed_since(context, remembered)
        short = [where for where in partitions if _lacks_replicas(context, where)]
        measured = measure(context, short[:SHOWN_PARTITIONS], bootstrap)
    answers = []
    led_in_silence: set[int] = set()
    led, starts = partitions_led(context), Starts(context)
    for where in partitions:
        trees = why_partition(context, where, source.now_ms, measured.get(where), starts)
        state = context.leadership(where)
        slow = why_slow(context, where, led) if trees[0].holds else None
        if state is not None and state.leader in silent:
            trees = (trees[0], leader_answers(where, state.leader, silent), *trees[1:])
            led_in_silence.add(state.leader)
        answers.append(Answer(str(where), sentence(where, trees), trees, slow))
    unknown += [not_known_to_live(b, why) for b, why in silent.items() if b not in led_in_silence]
    offline = [
        (where, context.assignments[where].replicas)
        for where in partitions
        if (state := context.leadership(where)) is not None and state.leader not in context.brokers
    ]
    unknown += source.eligible_not_known(context, offline)
    if remembered is not None and remembered.broker == source.controller and remembered is not context:
        answers += out_of_service(context, remembered, topic)
    return answers


def out_of_service(
    context: "ControllerContext", remembered: "ControllerContext", topic: str
) -> "list[Answer]":
    """Of a topic whose nodes the controller cannot read, and whose leaders serve: no client is told."""
    from odradek.advisor.explain import why_out_of_service
    from odradek.model.cluster import LeaderAndIsr
    from odradek.model.ids import PartitionEpoch
    from odradek.model.values import replace
    from odradek.store import layout

    if topic not in remembered.out_of_service:
        return []
    tree = why_out_of_service(remembered, topic)
    (cause,) = tree.because
    path = remembered.out_of_service[topic].partition(": ")[0]
    for where in context.partitions_of(topic):
        state = context.leadership(where)
        if state is not None and layout.state_path(where) == path:
            told = LeaderAndIsr(state.leader, state.leader_epoch, state.isr, PartitionEpoch(0))
            data = layout.encode_partition_state(told, remembered.controller_epoch)
            cause = replace(
                cause, unblocked_by=f"{cause.unblocked_by}. As Metadata has it the node is {data.decode()}"
            )
    tree = replace(tree, because=(cause,))
    said = f"{topic} is out of service at the controller, while its leaders serve as long as they live: {_reason(cause)}."
    return [Answer(topic, f"{said} Remedy: {cause.unblocked_by}.", (tree,), is_of_topic=True)]


def members_that_are_silent(
    context: "ControllerContext", partitions: "list[TopicPartition]", silent: Mapping[int, str]
) -> dict[int, str]:
    """Of the ISRs of these partitions those that are registered and do not answer, and why."""
    states = [state for where in partitions if (state := context.leadership(where)) is not None]
    members = {broker for state in states for broker in state.isr if broker in context.brokers}
    return {broker: why for broker, why in silent.items() if broker in members}


def leader_answers(where: "TopicPartition", leader: int, silent: dict[int, str]) -> "Why":
    """That it does not: whether the partition is offline nobody can tell, for only this client may be unable to reach it."""
    from odradek.advisor.explain import Why

    why = f"broker {leader}: {silent[leader]}"
    return Why(f"the leader of {where} answers", False, why, REMEDY.format(leader))


def measure(
    context: "ControllerContext", partitions: "list[TopicPartition]", bootstrap: str
) -> "dict[TopicPartition, dict[BrokerId, int]]":
    """How far each replica is, asked of the replicas: of a few partitions, not of a whole topic."""
    from odradek.cli.elect.replica_ends import ASK_TIMEOUT_S, replica_ends
    from odradek.client.sync import SyncClient
    from odradek.model.ids import BrokerId

    if not partitions:
        return {}
    with SyncClient(bootstrap, request_timeout_s=ASK_TIMEOUT_S) as client, client.waiting_once():
        found = {w: replica_ends(client, w, context.assignments[w].replicas) for w in partitions}
    return {
        w: {BrokerId(e.broker): e.log_end_offset for e in ends if e.log_end_offset is not None}
        for w, ends in found.items()
    }


def is_hidden(context: "ControllerContext", target: str) -> bool:
    """No client is told: a topic that is being deleted, and why nobody elects somebody who could lead."""
    from odradek.model.ids import number_in

    topic, _, number = target.rpartition("-")
    if target not in context.topics and not (topic in context.topics and number_in(number) is not None):
        return True
    asked = context.partitions_of(target if target in context.topics else topic)
    return any(
        context.online_of(state.isr, where)
        for where in asked
        if where in context.leaderless and (state := context.leadership(where)) is not None
    )


def _is_waiting(context: "ControllerContext", target: str) -> bool:
    return any(
        topic in context.out_of_service or context.is_queued_for_deletion(topic)
        for topic in (target, target.rpartition("-")[0])
    )


def controllers_own(
    bootstrap: str, unknown: list[str], silent: Mapping[int, str] | None = None
) -> "ControllerContext | None":
    """What the controller remembers, read off its journal where that is at hand: a cluster of ours, on this machine. `unknown` gets why
    one that is at hand was not read."""
    from odradek.advisor.replay import replay
    from odradek.cli.journal.files import blamed_on_its_line, local_history, settings_of
    from odradek.model.errors import OdradekError

    try:
        history = local_history(bootstrap, silent)
        if history is None:
            return None
        with blamed_on_its_line(history):
            _, core = replay(history.lines, settings=settings_of(history))
    except (OdradekError, OSError) as error:
        # A journal that is damaged, or that this user may not read, must not keep back what metadata alone can answer.
        unknown.append(f"what the controller alone knows, as of topics that are out of service: {error}")
        return None
    return core.context


def owed_since(context: "ControllerContext", remembered: "ControllerContext") -> None:
    """Since when removing replicas owe their answer stands in the controller's journal alone."""
    known = remembered.removals
    for where, owing in context.removals.items():
        context.removals[where] = {b: known.get(where, {}).get(b, since) for b, since in owing.items()}


def resolve(context: "ControllerContext", target: str) -> "tuple[str, list[TopicPartition]]":
    """The topic, and the partitions asked about: `orders-3` is a partition if there is one, else a topic."""
    from odradek.model.ids import TopicPartition, number_in
    from odradek.model.settings import nearest

    topic, _, number = target.rpartition("-")
    known = {*context.topics, *context.out_of_service}
    index = number_in(number)
    if topic in known and index is not None:
        one = TopicPartition(topic, index)
        if one not in context.assignments and target not in known and topic in context.topics:
            count = len(context.partitions_of(topic))
            fail(f"{topic} has {numbered(count, 'partition')}; there is no {number}")
        if one in context.assignments or target not in known:
            return topic, [one]
    if target in context.topics:
        return target, context.partitions_of(target)
    if target in context.out_of_service:
        return target, [TopicPartition(target, 0)]
    raise NotThere(target, nearest(target, dict.fromkeys(known)), sorted(known))


def _lacks_replicas(context: "ControllerContext", topic_partition: "TopicPartition") -> bool:
    state = context.leadership(topic_partition)
    assignment = context.assignments.get(topic_partition)
    return state is not None and assignment is not None and not set(assignment.replicas) <= set(state.isr)


def sentence(topic_partition: "TopicPartition", trees: "tuple[Why, ...]") -> str:
    """The answer in one plain sentence: what is wrong, why, and what to do first."""
    from odradek.advisor.explain import IN_SYNC

    wrong = [tree for tree in trees if not tree.holds]
    if not wrong:
        return f"{topic_partition} is well: {trees[0].detail}."
    worst = wrong[0]
    problem = _problem(worst)
    if worst.because and worst.because[0].condition == IN_SYNC:
        # The clean way first; the tree has the other, which loses records.
        clean = worst.because[0]
        problem, leaves = f"is offline, no member of its ISR is live ({clean.detail})", list(_leaves(clean))
    else:
        leaves = list(_leaves(worst))
    reasons = "; ".join(_reason(leaf) for leaf in leaves[:3] if leaf is not worst)
    remedy = next((leaf.unblocked_by for leaf in leaves if leaf.unblocked_by), worst.unblocked_by)
    text = f"{topic_partition} {problem}" + (f": {reasons}." if reasons else ".")
    return text + (f" Remedy: {remedy}." if remedy else "")


def _problem(tree: "Why") -> str:
    condition = tree.condition
    for start, words in (("every replica of ", "is under-replicated"),):
        if condition.startswith(start):
            return f"{words} ({tree.detail})" if tree.detail else words
    for end, words in (
        (" has a leader", "is offline"),
        (" answers", "has a leader that does not answer"),
        (" accepts acks=all", "refuses acks=all"),
    ):
        if condition.endswith(end):
            return f"{words} ({tree.detail})"
    return f"is not settled ({tree.detail})"


def _reason(leaf: "Why") -> str:
    """`broker 3 is live: not registered` read as what is wrong: `broker 3 is not live (not registered)`."""
    text = leaf.condition
    for yes, no in (
        (" is in the ISR", " is not in the ISR"),
        (" is live", " is not live"),
        (" leads no more than its share", " leads more than its share"),
        (" leads", " does not lead"),
        (" has deleted", " has not deleted"),
        ("no reassignment copies it", "a reassignment copies it"),
        ("is not throttled", "is throttled"),
        (" can be read", " cannot be read"),
        ("a controller elects", "no controller elects"),
    ):
        if yes in text:
            text = text.replace(yes, no)
            break
    else:
        text = f"this does not hold: {text}"
    return f"{text} ({leaf.detail})" if leaf.detail else text


def _leaves(tree: "Why") -> "Iterable[Why]":
    """The open conditions that rest on nothing else, in order."""
    below = [reason for reason in tree.because if not reason.holds]
    if not below:
        yield tree
    for reason in below:
        yield from _leaves(reason)


def as_dict(source: Source, target: str, answers: list[Answer]) -> dict[str, Any]:
    return {
        "target": target,
        "source": source.where,
        "well": all(answer.holds for answer in answers),
        "answers": [
            {
                "target": answer.target,
                "well": answer.holds,
                "sentence": answer.sentence,
                "trees": [tree.as_json() for tree in answer.trees],
                "hint": answer.hint,
                "slow": None if answer.slow is None else answer.slow.as_json(),
            }
            for answer in answers
        ],
        "unknown": list(source.unknown),
    }


def show(source: Source, target: str, answers: list[Answer], wrong: list[Answer]) -> None:
    of_partitions = [answer for answer in answers if not answer.is_of_topic]
    ill = [answer for answer in wrong if not answer.is_of_topic]
    if not ill:
        if len(of_partitions) == 1:
            print(of_partitions[0].sentence)
        else:
            each = f"{counted(len(of_partitions), 'partition')}, each with a leader and every replica in sync"
            print(f"{target} is well: {each}." if not wrong else f"{target} has {each}.")
    elif len(of_partitions) > 1:
        print(
            f"{len(ill)} of {counted(len(of_partitions), 'partition')} of {target} {'is' if len(ill) == 1 else 'are'} not well."
        )
    for answer in [*(one for one in wrong if one.is_of_topic), *ill[:SHOWN_PARTITIONS]]:
        print(answer.sentence)
        for tree in answer.trees:
            if not tree.holds:
                for line in tree.lines():
                    print(f"  {line}")
    if len(ill) > SHOWN_PARTITIONS:
        print(f"and {len(ill) - SHOWN_PARTITIONS} more; --json lists all")
    hints = [answer for answer in answers if answer.holds and answer.hint]
    for answer in hints[:SHOWN_PARTITIONS]:
        print(answer.hint)
        assert answer.slow is not None
        for leaf in _leaves(answer.slow):
            print(f"  -> {leaf.unblocked_by}")
    if len(hints) > SHOWN_PARTITIONS:
        print(f"and {len(hints) - SHOWN_PARTITIONS} more could be quicker; --json lists all")
    for note in source.unknown:
        print(f"not known: {note}")
