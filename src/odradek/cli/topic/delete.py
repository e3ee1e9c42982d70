"""`odradek topic delete NAME...`: with --yes; without it, what would go is shown and nothing is done.

The controller answers as soon as no client sees the topic any more; the files go later. A broker that is away keeps its
copy until it returns: `odradek why NAME` names it.
"""

import sys

import click

from odradek.cli.controller_calls import ask_controller
from odradek.cli.outcomes import Outcome, outcome, show_deletions
from odradek.cli.output import bootstrap_option, json_option


@click.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do it. Without it nothing is deleted.")
@click.option("--if-exists", is_flag=True, help="A topic that does not exist is no error.")
@bootstrap_option
@json_option
def delete(names: tuple[str, ...], yes: bool, if_exists: bool, bootstrap: str, as_json: bool) -> None:
    """Delete topics with all their records."""
    from odradek.cli.lookup import no_such_topic
    from odradek.cli.topic.offset_ranges import offset_ranges
    from odradek.client.sync import SyncClient, code_of
    from odradek.model.error_codes import ErrorCode
    from odradek.model.ids import TopicPartition
    from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    with SyncClient(bootstrap) as client:
        view = client.cluster(names)
        for name in names:
            if name not in view.topics and not if_exists:
                no_such_topic(client, name)
        there = [name for name in dict.fromkeys(names) if name in view.topics]
        report: list[Outcome] = []
        counted = [TopicPartition(name, index) for name in there for index in view.topics[name].partitions]
        found = offset_ranges(client, view, counted)
        for name in there:
            partitions = view.topics[name].partitions
            every = [TopicPartition(name, index) for index in partitions]
            is_known = all(where in found.starts and where in found.ends for where in every)
            report.append(
                outcome(
                    name,
                    done=False,
                    partitions=len(partitions),
                    records=sum(found.ends[p] - found.starts[p] for p in every) if is_known else None,
                    absent_brokers=sorted(
                        {b for p in partitions.values() for b in p.replicas if b not in view.brokers}
                    ),
                )
            )
        if yes and there:
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name) for name in there], topic_names=there, timeout_ms=30_000
            )
            response = ask_controller(client, request, lambda a: (t.error_code for t in a.responses))
            answers = {answer.name: answer for answer in response.responses}
            for entry in report:
                answer = answers[entry["target"]]
                code = code_of(answer.error_code)
                entry["done"] = code == ErrorCode.NONE
                if code != ErrorCode.NONE:
                    entry["error"] = (answer.error_message or code.name).rstrip(".")
    exit_code = show_deletions(
        report, yes=yes, as_json=as_json, headings=("topic", "partitions", "records"), cells=cells
    )
    if not as_json:
        for entry in report:
            if entry["done"] and entry["absent_brokers"]:
                absent = ", ".join(map(str, entry["absent_brokers"]))
                print(f"{entry['target']}: what broker {absent} has of it goes when that one is back")
    sys.exit(exit_code)


def cells(entry: Outcome) -> tuple[object, object]:
    return entry["partitions"], "unknown" if entry["records"] is None else entry["records"]
