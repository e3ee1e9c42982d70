"""`odradek what-if --kill 3 --start 3`: the controller's own step on a fork of the metadata, question after question.

Steps are taken in the order they are written. Each is asked of the cluster the one before left behind; a broker that
was started is in sync only after `--catch-up`. Exit code 0 when after the last step every partition asked about
accepts acks=all, and no broker is counted on that gives no answer, else 1.
"""

import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.broker_lists import broker_ids, replica_list
from odradek.cli.output import fail, json_option, print_json, print_table
from odradek.cli.sources import Source, open_source, source_options
from odradek.model.counted import first_of

if TYPE_CHECKING:
    from odradek.advisor.what_if import PartitionOutcome, WhatIf
    from odradek.advisor.what_if_steps import Step
    from odradek.controller.context import ControllerContext
    from odradek.model.ids import BrokerId, TopicPartition

BAD = ("goes offline", "stays offline", "falls under min ISR", "stays under min ISR")
SHOWN_PARTITIONS = 20
SHOWN_UNSURE = 3  # of which not even the next leader is sure
# The options that are steps: what they are called, and whether a value follows.
STEPS = {"--kill": True, "--start": True, "--shut-down": True, "--catch-up": False}
STEPS |= {"--reassign": True, "--config": True, "--elect": True}


class InOrder(click.Command):
    """Remembers the order of the steps: click sorts by option, and a question is a sequence."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        steps: list[tuple[str, str]] = []
        rest = list(args)
        while rest:
            name, equals, value = rest.pop(0).partition("=")
            if name in STEPS:
                if STEPS[name] and not equals:
                    value = rest.pop(0) if rest else ""
                steps.append((name, value))
        ctx.meta["steps"] = steps
        return super().parse_args(ctx, args)


@click.command(name="what-if", cls=InOrder)
@click.option("--kill", multiple=True, metavar="ID[,ID]", help="Brokers that fail together.")
@click.option("--start", multiple=True, metavar="ID[,ID]", help="Brokers that come back.")
@click.option("--shut-down", multiple=True, metavar="ID", help="A broker that stops in order.")
@click.option("--catch-up", is_flag=True, multiple=False, help="Every live replica is in sync again.")
@click.option("--reassign", multiple=True, metavar="TOPIC-P=ID,ID", help="A partition moves, to its end.")
@click.option(
    "--config",
    multiple=True,
    metavar="[TOPIC:]NAME=VALUE",
    help="A setting of a topic, or of the whole cluster; without VALUE it is deleted.",
)
@click.option(
    "--elect",
    multiple=True,
    metavar="preferred|unclean[:TOPIC-P]",
    help="An election by hand, for one partition or for all.",
)
@source_options
@json_option
@click.pass_context
def what_if(
    ctx: click.Context,
    /,
    bootstrap: str,
    place: Path | None,
    journal: Path | None,
    at: str | None,
    as_json: bool,
    **_steps: Any,
) -> None:
    """What the controller would do: brokers die, start, partitions move, settings change; one after another."""
    from odradek.advisor.what_if_steps import Kill, ask
    from odradek.cli.groups.moving import coordinators_moved, sentences

    steps = [parse_step(name, value) for name, value in ctx.meta["steps"]]
    if not steps:
        raise click.UsageError("nothing is asked; say --kill 3, --start 3, --reassign orders-0=1,2, ...")
    source = open_source(bootstrap=bootstrap, place=place, journal=journal, at=at)
    context = source.decided()
    alive = set(context.brokers)
    first = steps[0]
    unknown = [b for b in first.brokers if b not in context.brokers] if isinstance(first, Kill) else []
    if unknown:
        there = ", ".join(map(str, sorted(alive))) or "none"
        fail(f"broker {unknown[0]} is not alive, so it cannot die; brokers alive: {there}")
    try:
        answers, after = ask(context, steps)
    except ValueError as error:
        fail(str(error))
    unknown_ends = how_they_ended(context, steps, answers)
    successor = next_controller(source.controller, alive, steps)
    counted_on = source.counted_on(at_the_end(answers).values()).difference(*map(ended_by, steps))
    is_well = not still_bad(answers)
    safe = is_well and not counted_on
    depend = list(dependent_on_eligible(after, steps, answers))
    left_open = [*unknown_ends, *source.not_known(counted_on), *source.eligible_not_known(context, depend)]
    is_live = place is None and journal is None
    moved = coordinators_moved(answers, source.answering if is_live else None)
    if as_json:
        about = {"source": source.where, "unknown": left_open}
        print_json(
            {
                **as_dict(answers, successor is not None, safe),
                "coordinators": [m.as_json() for m in moved],
                **about,
            }
        )
    else:
        show(answers, source, successor)
        for broker in without_replicas(context, after, steps):
            print(f"no partition has a replica on broker {broker}")
        for line in sentences(moved):
            print(line)
        if len(answers) > 1:
            print(f"at the end: {at_last(is_well=is_well, is_known=not counted_on)}")
        for note in left_open:
            print(f"not known: {note}")
    sys.exit(0 if safe else 1)


def without_replicas(
    before: "ControllerContext", after: "ControllerContext", steps: "Sequence[Step]"
) -> "list[BrokerId]":
    """Brokers that are started for nothing: new ones that get nothing later, or ids that were mistyped."""
    from odradek.advisor.what_if_steps import Start

    if before.out_of_service:
        return []  # nobody knows where those have theirs
    started = dict.fromkeys(b for step in steps if isinstance(step, Start) for b in step.brokers)
    return [b for b in started if not before.partitions_on.get(b) and not after.partitions_on.get(b)]


def dependent_on_eligible(
    after: "ControllerContext", steps: "Sequence[Step]", answers: "Sequence[WhatIf]"
) -> "Iterator[tuple[TopicPartition, Collection[BrokerId]]]":
    """Partitions with the replicas that make a difference by being eligible: of one that stays offline the live ones, which would
    lead; of one that is led by who comes back from a crash all, for then that does not lead."""
    from odradek.advisor.what_if_steps import ShutDown, Start

    crashed: set[BrokerId] = set()
    in_order: set[BrokerId] = set()
    for step in steps:
        if isinstance(step, ShutDown):
            in_order.add(step.broker)
        elif isinstance(step, Start):
            crashed |= {*step.brokers} - in_order
            in_order.difference_update(step.brokers)
    for where, outcome in at_the_end(answers).items():
        replicas = () if where not in after.assignments else after.assignments[where].replicas
        if outcome.leader_after < 0:
            yield where, after.brokers.keys() & replicas
        elif outcome.leader_after in crashed:
            yield where, replicas


def ended_by(step: "Step") -> "tuple[BrokerId, ...]":
    from odradek.advisor.what_if_steps import Kill, ShutDown

    if isinstance(step, Kill):
        return step.brokers
    return (step.broker,) if isinstance(step, ShutDown) else ()


def at_last(*, is_well: bool, is_known: bool) -> str:
    if not is_well:
        return "not safe"
    return "every partition asked about accepts acks=all" if is_known else "not known to be safe"


def how_they_ended(
    context: "ControllerContext", steps: "Sequence[Step]", answers: "Sequence[WhatIf]"
) -> list[str]:
    """No node says how a broker ended that is away: itself does when it comes. What is answered takes a crash for granted, and here
    stands where it makes a difference."""
    from odradek.advisor.what_if_steps import ask, started_from_away

    away = started_from_away(context, steps)
    if not away:
        return []
    in_order, _ = ask(context, steps, stopped_in_order=away)
    crashed, better = at_the_end(answers), at_the_end(in_order)
    others = [
        f"{where} {outcome.verdict}{f', led by {outcome.leader_after}' if outcome.leader_after >= 0 else ''}"
        for where, outcome in sorted(better.items())
        if where not in crashed
        or (outcome.verdict, outcome.leader_after) != (crashed[where].verdict, crashed[where].leader_after)
    ]
    if not others:
        return []
    who = f"broker{'s' if len(away) > 1 else ''} {', '.join(map(str, away))}"
    return [
        f"how {who} ended, which only the broker itself can tell; a crash is taken for granted. After a stop in order: "
        f"{first_of(others, SHOWN_PARTITIONS)}"
    ]


def at_the_end(answers: "Sequence[WhatIf]") -> "dict[TopicPartition, PartitionOutcome]":
    """The last thing said about each partition."""
    return {outcome.topic_partition: outcome for answer in answers for outcome in answer.outcomes}


def next_controller(
    controller: int | None, alive: "Collection[BrokerId]", steps: "Sequence[Step]"
) -> str | None:
    """Who takes over where a step ends the controller's process: a part of a sentence; None: it stays."""
    from odradek.advisor.what_if_steps import Kill, Start

    there = set(alive)
    for step in steps:
        if isinstance(step, Start):
            there.update(step.brokers)
        else:
            gone = ended_by(step)
            there.difference_update(gone)
            if controller in gone:
                # Its own leaders it moves itself, as long as it is there.
                when = "first" if isinstance(step, Kill) else "once it has stopped"
                return f"another one is elected {when}" if there else "no broker is left to be controller"
    return None


def parse_step(name: str, value: str) -> "Step":
    from odradek.advisor import what_if_steps as steps
    from odradek.model.ids import TopicPartition

    if name == "--kill":
        return steps.Kill(tuple(broker_ids([value], name)))
    if name == "--start":
        return steps.Start(tuple(broker_ids([value], name)))
    if name == "--shut-down":
        brokers = broker_ids([value], name)
        if len(brokers) != 1:
            each = " ".join(f"{name} {broker}" for broker in brokers)
            raise click.UsageError(f"{name} {value}: brokers stop in order one by one, as in {each}")
        return steps.ShutDown(brokers[0])
    if name == "--catch-up":
        return steps.CatchUp()
    if name == "--reassign":
        targets: dict[TopicPartition, tuple[Any, ...]] = {}
        where, equals, replicas = value.partition("=")
        if not equals:
            raise click.UsageError(
                f"--reassign {value}: expected TOPIC-PARTITION=BROKERS, as in orders-0=1,2,3"
            )
        targets[partition_named(where, name)] = replica_list(replicas, f"--reassign {value}")
        return steps.Reassign(targets)
    if name == "--config":
        setting, equals, text = value.partition("=")
        topic, colon, key = setting.rpartition(":")
        from odradek.model.errors import ConfigurationError
        from odradek.model.settings import TOPIC_SETTINGS, parse_value, unknown_setting

        if key not in TOPIC_SETTINGS:
            raise click.UsageError(str(unknown_setting(key, TOPIC_SETTINGS, "topic")))
        if equals:
            try:
                parse_value(TOPIC_SETTINGS[key], text)
            except ConfigurationError as error:
                raise click.UsageError(f"--config {value}: {error}") from None
        return steps.Configure(topic if colon else None, key, text if equals else None)
    kind, colon, where = value.partition(":")
    if kind not in ("preferred", "unclean"):
        raise click.UsageError(
            f"--elect {value}: expected preferred or unclean, as in --elect unclean:orders-0"
        )
    return steps.Elect(kind == "unclean", (partition_named(where, name),) if colon else None)


def partition_named(text: str, option: str) -> Any:
    from odradek.model.ids import TopicPartition, number_in

    topic, _, digits = text.rpartition("-")
    number = number_in(digits)
    if not topic or number is None:
        raise click.UsageError(f"{option} {text}: expected a partition, as in orders-0")
    return TopicPartition(topic, number)


def still_bad(answers: "Sequence[WhatIf]") -> list[str]:
    """Partitions that are offline or refuse acks=all by the last thing said about them."""
    return [str(where) for where, last in sorted(at_the_end(answers).items()) if last.verdict in BAD]


def as_dict(answers: "Sequence[WhatIf]", kills_controller: bool, safe: bool) -> dict[str, object]:
    """The last step under the names it always had; all of them under `steps`."""
    steps = [
        {
            "question": answer.question,
            "summary": answer.summary,
            "unfinished": list(answer.unfinished),
            "partitions": [
                {
                    "partition": str(outcome.topic_partition),
                    "verdict": outcome.verdict,
                    "leader_before": outcome.leader_before,
                    "leader_after": outcome.leader_after,
                    "isr_before": list(outcome.isr_before),
                    "isr_after": list(outcome.isr_after),
                    "min_insync_replicas": outcome.min_insync_replicas,
                    "reason": outcome.reason,
                    "unclean": outcome.is_unclean,
                    "may_lead": list(outcome.may_lead),
                }
                for outcome in answer.outcomes
            ],
        }
        for answer in answers
    ]
    return {"safe": safe, "controller_dies": kills_controller, **steps[-1], "steps": steps}


def show(answers: "Sequence[WhatIf]", source: Source, successor: str | None) -> None:
    if successor is not None:
        print(f"broker {source.controller} is the controller: {successor}")
    for answer in answers:
        words = ", ".join(f"{count} {verdict}" for verdict, count in answer.summary.items())
        print(f"{answer.question}: {words or 'no partition is touched'}")
        rows = [
            (
                str(outcome.topic_partition),
                outcome.verdict,
                f"{_leader(outcome.leader_before)} -> {_leader(outcome.leader_after)}",
                f"{_list(outcome.isr_before)} -> {_list(outcome.isr_after)}",
                outcome.min_insync_replicas,
            )
            for outcome in answer.outcomes
            if outcome.verdict != "unchanged" and not is_folded(outcome)
        ]
        if rows:
            print_table(("partition", "verdict", "leader", "isr", "min isr"), rows[:SHOWN_PARTITIONS])
        if len(rows) > SHOWN_PARTITIONS:
            print(f"and {len(rows) - SHOWN_PARTITIONS} more; --json lists all")
        folded = Counter((o.topic_partition.topic, o.verdict) for o in answer.outcomes if is_folded(o))
        for topic in sorted({topic for topic, _ in folded}):
            verdicts = [f"{count} {verdict}" for (of, verdict), count in folded.items() if of == topic]
            print(f"{topic}: {', '.join(verdicts)}")
        several = [outcome for outcome in answer.outcomes if outcome.may_lead]
        for lossy, why in (
            ([o for o in answer.outcomes if o.is_unclean], "led by a replica that was not in sync"),
            ([o for o in several if not o.is_unclean], "each replica that had them all may have lost some"),
        ):
            if lossy:
                first = lossy[0].topic_partition
                where = first if len(lossy) == 1 else f"{len(lossy)} partitions, first {first}"
                print(f"acknowledged records may be lost in {where}: {why}")
        if several:
            whose, one = first_of([o.topic_partition for o in several], SHOWN_UNSURE), several[0]
            print(
                f"not known: which replica leads {whose} then; of {_list(one.may_lead)} for {one.topic_partition}, the "
                "one with the longest log does"
            )
        for sentence in answer.unfinished:
            print(sentence)


def is_folded(outcome: "PartitionOutcome") -> bool:
    """Fifty partitions of an internal topic that only change hands would hide those of the topics one has made."""
    from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC

    is_internal = outcome.topic_partition.topic in (GROUPS_TOPIC, TRANSACTIONS_TOPIC)
    return is_internal and outcome.verdict not in (*BAD, "unchanged")


def _leader(broker: int) -> str:
    return str(broker) if broker >= 0 else "none"


def _list(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "-"
