"""ElectLeaders on the wire, and the partitions people name."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from odradek.cli.controller_calls import ask_controller
from odradek.cli.output import fail
from odradek.model.counted import numbered

if TYPE_CHECKING:
    from odradek.client.sync import ClusterView, SyncClient
    from odradek.model.error_codes import ErrorCode
    from odradek.model.ids import TopicPartition

PREFERRED, UNCLEAN = 0, 1


class Elected(NamedTuple):
    partition: "TopicPartition"
    code: "ErrorCode"
    message: str


def partitions_of(
    client: "SyncClient", view: "ClusterView", targets: Iterable[str]
) -> "list[TopicPartition]":
    """`orders` is every partition of it, `orders-3` the one."""
    from odradek.cli.lookup import no_such_topic
    from odradek.model.ids import TopicPartition, number_in

    found: dict[TopicPartition, None] = {}
    for target in targets:
        topic, _, digits = target.rpartition("-")
        number = number_in(digits)
        if topic in view.topics and number is not None and number in view.topics[topic].partitions:
            found[TopicPartition(topic, number)] = None
        elif target in view.topics:
            found.update({TopicPartition(target, index): None for index in view.topics[target].partitions})
        elif topic in view.topics and digits.isdigit():
            count = len(view.topics[topic].partitions)
            fail(f"{topic} has {numbered(count, 'partition')}; there is no {digits}")
        else:
            no_such_topic(client, target)
    return sorted(found)


def elect_leaders(client: "SyncClient", kind: int, partitions: "Iterable[TopicPartition]") -> list[Elected]:
    """Every partition asked for, in order; a partition the answer leaves out needed no election (KIP-460)."""
    from odradek.client.sync import answered, code_of
    from odradek.model.error_codes import ErrorCode
    from odradek.model.ids import TopicPartition
    from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

    asked = sorted(partitions)
    by_topic: dict[str, list[int]] = {}
    for where in asked:
        by_topic.setdefault(where.topic, []).append(where.partition)
    request = ElectLeadersRequest(
        election_type=kind,
        topic_partitions=[TopicPartitions(topic=name, partitions=p) for name, p in by_topic.items()],
        timeout_ms=30_000,
    )
    answer = ask_controller(
        client,
        request,
        lambda a: (
            a.error_code,
            *(p.error_code for t in a.replica_election_results for p in t.partition_result),
        ),
    )
    if answer.error_code != ErrorCode.NONE:
        raise answered(answer.error_code, "election")
    found = {
        TopicPartition(topic.topic, p.partition_id): (
            code_of(p.error_code),
            (p.error_message or "").rstrip("."),
        )
        for topic in answer.replica_election_results
        for p in topic.partition_result
    }
    nothing = (ErrorCode.ELECTION_NOT_NEEDED, "")
    return [Elected(where, *found.get(where, nothing)) for where in asked]
