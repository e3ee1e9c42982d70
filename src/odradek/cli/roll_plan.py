"""`odradek roll plan`: an order for restarting brokers with its certificate, or the counter-example.

The certificate is checked before it is shown: the controller's own step is asked about every moment in it, with
every further death it claims to survive. In a large cluster that takes minutes, and is done with --check. Exit code 0 for a plan that holds, 1
when there is none, or when it counts on a broker that gives no answer.
"""

import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click

from odradek.cli.broker_lists import live_brokers
from odradek.cli.output import fail, json_option, print_json, print_table
from odradek.cli.silent_brokers import if_they_live
from odradek.cli.sources import open_source, source_options
from odradek.model.counted import counted, first_of

if TYPE_CHECKING:
    from odradek.advisor.roll_plan import RollPlan
    from odradek.controller.context import ControllerContext
    from odradek.model.ids import BrokerId

SHOWN_EXAMPLES = 10
# Moments times partitions, below which the check takes seconds.
CHECKED_UNASKED = 50_000


@click.command()
@click.option(
    "--broker", "texts", multiple=True, metavar="ID[,ID]", help="Only these; all live ones when left out."
)
@click.option(
    "--survive",
    type=click.IntRange(0, 1),
    default=1,
    show_default=True,
    help="Further deaths at the worst moment that it must survive.",
)
@click.option("--at-once", type=click.IntRange(min=1), help="Restart at most so many together.")
@click.option(
    "--check/--no-check",
    "wanted",
    default=None,
    help="Check the certificate; unasked, if that takes seconds.",
)
@source_options
@json_option
def plan(
    texts: tuple[str, ...],
    survive: int,
    at_once: int | None,
    wanted: bool | None,
    bootstrap: str,
    place: Path | None,
    journal: Path | None,
    at: str | None,
    as_json: bool,
) -> None:
    """Order and batches for restarting brokers, with certificate or counter-example."""
    from odradek.advisor.roll_plan import check, fragile, roll_plan

    source = open_source(bootstrap=bootstrap, place=place, journal=journal, at=at)
    context = source.decided()
    brokers = live_brokers(context, texts, "--broker", "restart") if texts else sorted(context.brokers)
    if not brokers:
        fail("no broker is alive, so none can be restarted")
    found = roll_plan(context, brokers, survives=survive, at_once=at_once)
    moments = len(found.batches) * (len(context.brokers) if survive else 1)
    is_quick = moments * len(context.assignments) <= CHECKED_UNASKED
    checked = found.is_safe and (is_quick if wanted is None else wanted)
    wrong = check(context, found) if checked else []
    if wrong:  # no assert: what says `checked` is checked under `python -O` as well
        raise AssertionError(f"the certificate does not hold: {wrong[0]}")
    # Who restarts in the only step is counted on by nobody.
    counted_on = in_sync(context, context.brokers if survive else brokers).difference(
        brokers if len(found.batches) == 1 else ()
    )
    doubted = sorted(source.silent.keys() & counted_on)
    unknown = source.not_known(doubted)
    frail = [str(where) for where in fragile(context)] if found.is_safe and survive else []
    if as_json:
        report = {**found.as_json(), "checked": checked, "lost_by_one_death_anyway": frail}
        print_json({**report, "unknown": unknown})
    else:
        show(found, context, source.controller, brokers, doubted)
        if checked:
            print(
                "The certificate was checked with the controller's own step, moment by moment; --json has it whole."
            )
        elif found.is_safe:
            print(
                "The certificate was not checked with the controller's own step; --check does it, moment by moment."
            )
        if frail:
            print(f"not covered, one death takes them offline anyway: {first_of(frail, SHOWN_EXAMPLES)}")
        for note in unknown:
            print(f"not known: {note}")
    sys.exit(0 if found.is_safe and not doubted else 1)


def in_sync(context: "ControllerContext", brokers: "Collection[BrokerId]") -> "set[BrokerId]":
    """The ISRs of what has replicas on these brokers."""
    found: set[BrokerId] = set()
    for where in set().union(*(context.partitions_on.get(broker, set()) for broker in brokers)):
        state = context.leadership(where)
        found.update(() if state is None else state.isr)
    return found


def show(
    found: "RollPlan",
    context: "ControllerContext",
    controller: int | None,
    restarted: Collection["BrokerId"],
    doubted: Collection[int] = (),
) -> None:
    """`doubted`: who is counted on and gives no answer."""
    extra = "even if one more broker dies at the worst moment" if found.survives else "if nothing else dies"
    if not found.is_safe:
        examples = found.counter_examples
        print(f"No order is safe: {examples[0].sentence()}.")
        print_table(
            ("partition", "isr", "restarts", "dies"),
            [
                (
                    str(e.topic_partition),
                    ",".join(map(str, e.isr)),
                    ",".join(map(str, e.down)),
                    "" if e.dies is None else e.dies,
                )
                for e in examples[:SHOWN_EXAMPLES]
            ],
        )
        if len(examples) > SHOWN_EXAMPLES:
            print(f"and {len(examples) - SHOWN_EXAMPLES} more; --json lists all")
        print(_advice(found, context, restarted))
        return
    steps = len(found.batches)
    print(
        f"{counted(steps, 'step')}; wait for full ISRs between two. "
        f"Nothing goes offline and nothing acknowledged is lost, {extra}{if_they_live(doubted)}."
    )
    print_table(
        ("step", "restart", "refuse acks=all", "refuse acks=all if one dies", ""),
        [
            (
                number,
                ",".join(map(str, moment.down)),
                len(moment.under_min_isr),
                len(moment.under_min_isr_after_a_death),
                "controller, last" if controller in moment.down else "",
            )
            for number, moment in enumerate(found.certificate, start=1)
        ],
    )


def _advice(found: "RollPlan", context: "ControllerContext", restarted: Collection["BrokerId"]) -> str:
    """What would make it safe on this cluster: one copy more only where there is a broker for it."""
    examples = found.counter_examples
    behind = [
        e
        for e in examples
        if not e.is_moved and len(context.assignments[e.topic_partition].replicas) > len(e.isr)
    ]
    if behind:
        return (
            f"What makes it safe: every replica in sync first; odradek why {behind[0].topic_partition} says what is "
            "missing."
        )
    brokers = len(context.brokers)
    if brokers == 1:
        return (
            "It is the only broker: its partitions are offline while it restarts. Restart it when no client needs it, "
            "or start a second broker first."
        )
    topics = {e.topic_partition.topic for e in examples}
    alone = {e.topic_partition.topic for e in examples if e.dies is None}
    if found.survives and brokers == 2:
        if alone:
            return f"What makes it safe: {_copies(2, alone)}, and one death less with --survive 0, or a third broker."
        return (
            "Two brokers cannot do more: accept one death less with --survive 0, or start a third one first."
        )
    advice = f"What makes it safe: {_copies(2 + found.survives, topics)}"
    if brokers - len(restarted) >= max(len(e.isr) for e in examples):
        advice += ", or move them to brokers that are not restarted"
    if found.survives:
        less = "a second copy is enough for" if alone else "or accept one death less with"
        advice += f"; {less} --survive 0"
    return f"{advice}."


def _copies(number: int, topics: Collection[str]) -> str:
    # Without --topic the plan would take copies from the topics that have more.
    options = " ".join(f"--topic {topic}" for topic in sorted(topics)[:SHOWN_EXAMPLES])
    if len(topics) > SHOWN_EXAMPLES:
        options += f" and {counted(len(topics) - SHOWN_EXAMPLES, 'more topic')}, which --json names"
    which = "second" if number == 2 else "third"
    return f"a {which} copy first (odradek reassign plan --replication-factor {number} {options})"
