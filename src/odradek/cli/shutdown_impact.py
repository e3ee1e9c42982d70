"""`odradek shutdown-impact --broker N`: what taking brokers down would cost, before anybody takes them down.

Exit code 0 when nothing goes offline, nothing is led by a replica that was not in sync, and nothing falls under
min.insync.replicas, and no broker is counted on that gives no answer, else 1.
"""

import json
import shlex
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click

from odradek.cli.broker_lists import broker_ids, live_brokers
from odradek.cli.output import json_option, print_json, print_table
from odradek.cli.silent_brokers import if_they_live
from odradek.cli.sources import open_source, source_options
from odradek.model.counted import counted

if TYPE_CHECKING:
    from odradek.advisor.shutdown_impact import ShutdownImpact

SHOWN_PARTITIONS = 20


@click.command(name="shutdown-impact")
@click.option(
    "--broker", "texts", multiple=True, required=True, metavar="ID[,ID]", help="Brokers to stop, in turn."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write the remedy here, as `odradek reassign apply` takes it.",
)
@source_options
@json_option
def shutdown_impact(
    texts: tuple[str, ...],
    out: Path | None,
    bootstrap: str,
    place: Path | None,
    journal: Path | None,
    at: str | None,
    as_json: bool,
) -> None:
    """What a controlled shutdown of brokers would cost, and what makes it safe."""
    from odradek.advisor.shutdown_impact import shutdown_impact as impact_of
    from odradek.cli.reassign.files import proposal

    broker_ids(texts, "--broker")  # refused before anybody is asked
    source = open_source(bootstrap=bootstrap, place=place, journal=journal, at=at)
    context = source.decided()
    leaving = live_brokers(context, texts, "--broker", "stop")
    impact = impact_of(context, leaving)
    doubted = sorted(source.counted_on(impact.outcomes))
    stay = context.brokers.keys() - {*leaving}
    offline = [
        (o.topic_partition, stay & {*context.assignments[o.topic_partition].replicas})
        for o in impact.goes_offline
    ]
    unknown = [*source.not_known(doubted), *source.eligible_not_known(context, offline)]
    if out is not None:
        out.write_text(json.dumps(proposal(impact.remedy), indent=1) + "\n", encoding="utf-8")
    if as_json:
        refusals = {setting: impact.refuses(setting) for setting in ("offline", "under-min")}
        print_json(
            {
                **impact.as_json(),
                "refused_by": refusals,
                "unknown": unknown,
                "source": source.where,
            }
        )
    else:
        show(impact, doubted)
        for note in unknown:
            print(f"not known: {note}")
        if out is not None and impact.remedy:
            print(f"the remedy is in {out}: odradek reassign apply {shlex.quote(str(out))}")
    sys.exit(0 if impact.is_safe and not doubted else 1)


def show(impact: "ShutdownImpact", doubted: "Collection[int]" = ()) -> None:
    """`doubted`: who is counted on and gives no answer."""
    from odradek.advisor.shutdown_impact import once_in_sync

    who = f"broker{'s' if len(impact.brokers) > 1 else ''} {','.join(map(str, impact.brokers))}"
    print(f"Stopping {who}: {headline(impact, doubted)}")
    verdicts = (
        ("exactly min ISR left", impact.lands_on_min_isr),
        ("refuses acks=all", impact.falls_under_min_isr),
        ("may lose records", impact.may_lose_records),
        ("goes offline", impact.goes_offline),
    )
    worst = {o.topic_partition: becomes for becomes, outcomes in verdicts for o in outcomes}
    rows = [
        (str(o.topic_partition), becomes, o)
        for becomes, outcomes in reversed(verdicts)
        for o in outcomes
        if worst[o.topic_partition] == becomes
    ]
    if rows:
        print_table(
            ("partition", "becomes", "leader", "isr", "min isr", "move first to"),
            [
                (
                    name,
                    becomes,
                    f"{_leader(o.leader_before)} -> {_leader(o.leader_after)}",
                    f"{_ids(o.isr_before)} -> {_ids(o.isr_after)}",
                    o.min_insync_replicas,
                    _ids(impact.remedy.get(o.topic_partition, ())),
                )
                for name, becomes, o in rows[:SHOWN_PARTITIONS]
            ],
        )
    if len(rows) > SHOWN_PARTITIONS:
        print(f"and {len(rows) - SHOWN_PARTITIONS} more; --json lists all")
    waits = [f"{w} {once_in_sync(who)}: odradek why {w}" for w, who in impact.safe_once_in_sync.items()]
    for sentences in (waits, [f"{where} {why}" for where, why in impact.without_remedy.items()]):
        for sentence in sentences[:SHOWN_PARTITIONS]:
            print(sentence)
        if len(sentences) > SHOWN_PARTITIONS:
            print(f"and {len(sentences) - SHOWN_PARTITIONS} more of them; --json lists all")


def headline(impact: "ShutdownImpact", doubted: "Collection[int]") -> str:
    offline, under = len(impact.goes_offline), len(impact.falls_under_min_isr)
    bad = []
    if offline:
        bad.append(f"{_count(offline)} offline, no other live copy is in sync")
    if impact.may_lose_records:
        losing = len(impact.may_lose_records)
        bad.append(
            f"{counted(losing, 'partition')} may lose acknowledged records, led by a replica not in sync"
        )
    if under:
        bad.append(f"{_count(under)} under min.insync.replicas, acks=all is refused")
    moves = f"another leader for {len(impact.moves_its_leader)}"
    if bad:
        return f"{'; '.join(bad)}; {moves}."
    edge = f", exactly min ISR left in {len(impact.lands_on_min_isr)}" if impact.lands_on_min_isr else ""
    if doubted:
        return f"not known to be safe: nothing goes offline{if_they_live(doubted)}; {moves}{edge}."
    return f"safe: nothing goes offline; {moves}{edge}."


def _count(partitions: int) -> str:
    return f"{counted(partitions, 'partition')} {'goes' if partitions == 1 else 'go'}"


def _leader(broker: int) -> str:
    return str(broker) if broker >= 0 else "none"


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "-"
