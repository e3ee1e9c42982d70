"""`odradek what-if --kill N`: the controller's own step on a fork of the live metadata.

The metadata comes from any Kafka-compatible cluster (`--bootstrap`), or from the embedded store's file also
while no broker runs (`--store`). Exit code 0 when every partition stays available for acks=all, else 1.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from odradek.cli.output import bootstrap_option, fail, json_option, print_json, print_table

if TYPE_CHECKING:
    from odradek.controller.what_if import WhatIf

BAD = ("goes offline", "stays offline", "falls under min ISR", "stays under min ISR")
SHOWN_PARTITIONS = 20


@click.command(name="what-if")
@click.option("--kill", multiple=True, required=True, metavar="ID[,ID]", help="Brokers that fail together.")
@click.option(
    "--store", "place", type=click.Path(path_type=Path), help="The store's file, instead of a broker."
)
@bootstrap_option
@json_option
def what_if(kill: tuple[str, ...], place: Path | None, bootstrap: str, as_json: bool) -> None:
    """What the controller would do if brokers died."""
    from odradek.cli.what_if_sources import from_cluster, from_store
    from odradek.controller import what_if as controller
    from odradek.model.ids import BrokerId

    victims = broker_ids(kill)
    source = from_cluster(bootstrap) if place is None else from_store(place)
    alive = sorted(broker.broker_id for broker in source.snapshot.brokers)
    if unknown := [broker for broker in victims if broker not in alive]:
        fail(
            f"broker {unknown[0]} is not alive, so it cannot die; brokers alive: {', '.join(map(str, alive)) or 'none'}"
        )
    context = controller.context_of(source.snapshot, source.settings)
    answer = controller.what_if(context, kill=[BrokerId(broker) for broker in victims])
    if as_json:
        print_json(as_dict(answer, source.controller in victims))
    else:
        show(answer, source.controller if source.controller in victims else None)
    sys.exit(1 if answer.with_verdict(*BAD) else 0)


def broker_ids(texts: tuple[str, ...]) -> list[int]:
    try:
        return sorted({int(part) for text in texts for part in text.split(",")})
    except ValueError:
        raise click.UsageError(
            f"--kill {' '.join(texts)}: want broker ids, as in --kill 3 or --kill 1,2"
        ) from None


def as_dict(answer: "WhatIf", kills_controller: bool) -> dict[str, object]:
    return {
        "question": answer.question,
        "safe": not answer.with_verdict(*BAD),
        "controller_dies": kills_controller,
        "summary": answer.summary,
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
            }
            for outcome in answer.outcomes
        ],
    }


def show(answer: "WhatIf", controller: int | None) -> None:
    words = ", ".join(f"{count} {verdict}" for verdict, count in answer.summary.items())
    print(f"{answer.question}: {words or 'no partition is touched'}")
    if controller is not None:
        print(f"broker {controller} is the controller: another one is elected first")
    rows = [
        (
            str(outcome.topic_partition),
            outcome.verdict,
            f"{_leader(outcome.leader_before)} -> {_leader(outcome.leader_after)}",
            f"{_list(outcome.isr_before)} -> {_list(outcome.isr_after)}",
            outcome.min_insync_replicas,
        )
        for outcome in answer.outcomes
        if outcome.verdict != "unchanged"
    ]
    if rows:
        print_table(("partition", "verdict", "leader", "isr", "min isr"), rows[:SHOWN_PARTITIONS])
    if len(rows) > SHOWN_PARTITIONS:
        print(f"and {len(rows) - SHOWN_PARTITIONS} more; --json lists all")


def _leader(broker: int) -> str:
    return str(broker) if broker >= 0 else "none"


def _list(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "-"
