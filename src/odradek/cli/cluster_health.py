"""`odradek cluster health`: brokers, what is offline, what lacks replicas, how far groups lag. Exit code 0 only when nothing
is offline or lacks any, and all was told; 3 where nothing is seen to be wrong, and not all was told: who may not ask, or asks a
broker that hangs, has not been told that the cluster is unwell. Nor has who reaches nobody at all: the address may be wrong, or a
network between. Lag, known or not, is a matter of the readers."""

import sys
import time
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn

import click

from odradek.cli.controller_calls import poll
from odradek.cli.output import bootstrap_option, json_option, print_json, print_table
from odradek.cli.silent_brokers import not_known_to_live, silent_brokers
from odradek.model.counted import counted
from odradek.model.printable import named, printable

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient

WATCH_S = 1.0
SETTINGS_S = 10.0  # for those of 500 topics
SHOWN_GROUPS = 10
SHOWN_PARTITIONS = 50  # of each kind of trouble
MIN_ISR = "min.insync.replicas"
WORDS = {"healthy": "healthy", "unhealthy": "NOT healthy", "unknown": "not known to be healthy"}
EXIT_CODES = {"healthy": 0, "unhealthy": 1, "unknown": 3}


class NobodyTells(click.ClickException):
    exit_code = EXIT_CODES["unknown"]


def unknown_where_nobody_tells(command: Any) -> Any:
    """Also with `--wait`, which is over before the verb begins."""

    @wraps(command)
    def told(**asked: Any) -> Any:
        from odradek.client.sync_connection import NO_ANSWER

        try:
            return command(**asked)
        except NO_ANSWER as error:
            raise NobodyTells(str(error)) from error

    return told


@click.command()
@click.option("--watch", is_flag=True, help="Again every second, until Ctrl-C.")
@unknown_where_nobody_tells
@bootstrap_option
@json_option
def health(watch: bool, bootstrap: str, as_json: bool) -> None:
    """Is everything replicated, and who leads? Exit code 1 if not, and 3 if that is not known: nobody answers, a broker does not tell
    its part of the answer, or this client lacks a right, which is named."""
    from odradek.client.sync import SyncClient

    with SyncClient(bootstrap) as client:
        _look(client, watch, as_json)


def _look(client: "SyncClient", watch: bool, as_json: bool) -> NoReturn:
    report = health_report(client)  # the first time it is said at once that nobody answers
    while True:
        if as_json:
            print_json(report)
        else:
            if watch and sys.stdout.isatty():
                click.clear()
            show(report)
            sys.stdout.flush()  # of a pipe, too, which is written by the block
        if not watch:
            sys.exit(EXIT_CODES[report["verdict"]])
        time.sleep(WATCH_S)
        report = poll(lambda: health_report(client))


def health_report(client: "SyncClient") -> dict[str, Any]:
    """One picture of the cluster, from Metadata, a sign of life of each broker, the topics' min.insync.replicas and what groups have committed. What a
    broker does not tell is noted, and the rest is shown."""
    from odradek.cli.groups.lags import lags

    view = client.cluster()
    silent = silent_brokers(client, view.brokers)
    unknown = [not_known_to_live(broker, why) for broker, why in silent.items()]
    unknown += [f"topic {name}: {code.name}" for name, code in sorted(view.errors.items())]
    minimums = min_insync_replicas(client, sorted(view.topics), unknown)
    leads = dict.fromkeys(view.brokers, 0)
    follows = dict.fromkeys(view.brokers, 0)
    offline, under_replicated, under_min_isr = [], [], []
    total = 0
    for name in sorted(view.topics):
        for index, p in view.topics[name].partitions.items():
            # A topic that has fewer replicas takes what all of them have.
            minimum = min(minimums.get(name, 1), len(p.replicas))
            total += 1
            entry = {
                "partition": f"{name}-{index}",
                "leader": p.leader,
                "replicas": list(p.replicas),
                "isr": list(p.isr),
            }
            if p.leader not in view.brokers:
                offline.append(entry)
            else:
                leads[p.leader] += 1
            if len(p.isr) < len(p.replicas):
                under_replicated.append(entry)
            if len(p.isr) < minimum:
                under_min_isr.append({**entry, "min_insync_replicas": minimum})
            for replica in p.replicas:
                if replica in follows and replica != p.leader:
                    follows[replica] += 1
    # Metadata names the brokers alive; a dead one shows as a replica that none of them is.
    missing = sorted(
        {
            replica
            for topic in view.topics.values()
            for p in topic.partitions.values()
            for replica in p.replicas
            if replica not in view.brokers
        }
    )
    unknown_lags: list[str] = []
    groups = lags(client, view, unknown, unknown_lags)
    report = {
        "controller": view.controller_id if view.controller_id in view.brokers else None,
        "brokers": [
            {
                "id": broker.broker_id,
                "host": broker.address.host,
                "port": broker.address.port,
                "rack": broker.rack,
                "leads": leads[broker.broker_id],
                "follows": follows[broker.broker_id],
            }
            for broker in sorted(view.brokers.values())
        ],
        "missing_brokers": missing,
        "partitions": total,
        "offline": offline,
        "under_min_isr": under_min_isr,
        "under_replicated": under_replicated,
        "groups": groups,
        "unknown": unknown + unknown_lags,
    }
    # Who has lost the metadata store tells the metadata that it saw last: what is not known is not called healthy.
    verdict = "unhealthy" if _is_in_trouble(report) else "unknown" if unknown else "healthy"
    return {"healthy": verdict == "healthy", "verdict": verdict, **report}


def min_insync_replicas(client: "SyncClient", topics: list[str], unknown: list[str]) -> dict[str, int]:
    from odradek.cli.sources import MOST_RESOURCES, TOPIC_RESOURCE, describe_configs
    from odradek.client.sync import ANY
    from odradek.client.sync_connection import ConnectionLost, Unreachable
    from odradek.model.ids import number_in

    found: dict[str, int] = {}
    for begin in range(0, len(topics), MOST_RESOURCES):
        some = topics[begin : begin + MOST_RESOURCES]
        try:
            told = describe_configs(client, ANY, TOPIC_RESOURCE, some, unknown, timeout_s=SETTINGS_S)
        except (ConnectionLost, Unreachable) as error:
            unknown.append(f"the settings of topics, of which min.insync.replicas is taken as 1: {error}")
            return found
        for topic, entries in told.items():
            value = next(value for name, value, _ in entries if name == MIN_ISR) or "1"
            number = number_in(value)
            if number is None:  # a node that somebody wrote by hand
                unknown.append(f"topic {topic}: {MIN_ISR}={value[:40]} is no number, and taken as 1")
            found[topic] = number or 1
    return found


def show(report: dict[str, Any]) -> None:
    controller = "none" if report["controller"] is None else report["controller"]
    print(
        f"{WORDS[report['verdict']]}: {counted(report['partitions'], 'partition')}, controller {controller}"
    )
    print_table(
        ("broker", "address", "rack", "leads", "follows"),
        [
            (b["id"], f"{b['host']}:{b['port']}", b["rack"] or "", b["leads"], b["follows"])
            for b in report["brokers"]
        ]
        + [(missing, "not there", "", "", "") for missing in report["missing_brokers"]],
    )
    for title, words in (
        ("offline", "no leader: neither written nor read"),
        ("under_min_isr", "too few in sync: acks=all is refused"),
        ("under_replicated", "replicas behind or away"),
    ):
        if report[title]:
            print(f"{counted(len(report[title]), 'partition')}, {words}:")
            print_table(
                ("partition", "leader", "replicas", "isr"),
                [
                    (
                        p["partition"],
                        p["leader"] if p["leader"] >= 0 else "none",
                        ",".join(map(str, p["replicas"])),
                        ",".join(map(str, p["isr"])),
                    )
                    for p in report[title][:SHOWN_PARTITIONS]
                ],
            )
            _print_rest(report[title], SHOWN_PARTITIONS)
    if report["groups"]:
        behind = [row for row in report["groups"] if row["lag"] != 0]
        print(f"{counted(len(report['groups']), 'group')}, {len(behind) or 'none'} behind")
        if behind:
            print_table(
                ("group", "state", "lag"),
                [
                    (named(row["group"]), row["state"], "?" if row["lag"] is None else row["lag"])
                    for row in behind[:SHOWN_GROUPS]
                ],
            )
            _print_rest(behind, SHOWN_GROUPS)
    for note in report["unknown"]:
        print(f"not known: {printable(note)}")


def _is_in_trouble(report: dict[str, Any]) -> bool:
    kinds = ("offline", "under_replicated", "missing_brokers")
    return report["controller"] is None or any(report[kind] for kind in kinds)


def _print_rest(rows: list[Any], shown: int) -> None:
    if len(rows) > shown:
        print(f"and {len(rows) - shown} more; --json lists all")
