"""Verbs of scenarios that administrators use; `scenario` and `scenario.clients` have the others.

| command | does, and prints |
|---|---|
| `terminate B` | begins an orderly stop and does not wait for it |
| `delete TOPIC` | asks for the deletion; `wait-gone TOPIC` until the store has forgotten it |
| `add-partitions TOPIC COUNT` | prints the error, if there is one |
| `grow-node TOPIC COUNT` | the same by hand, in the store |
| `reassign P to=3,2`, `cancel P` | moves a partition, or gives that up; prints the error, if there is one |
| `assignment P` | prints the assigned replicas, and those being added and removed |
| `elect preferred|unclean P [via=B]` | prints the error, or NONE; `via`: asks that broker as if it were controller |
| `config TOPIC name=value ...` | changes a topic's configuration; prints the error, if there is one |
| `delete-records P UP_TO` | prints the error, if there is one, and where the log begins |
| `latest P` | prints what ListOffsets says: the high watermark as the leader has it |
| `slow-store B SECONDS` | answers of the store to that broker take so long; the calls themselves do not |
| `slow-calls B SECONDS` | the other way round: calls of that broker take so long to reach the store |
| `depose` | removes `/controller` by hand |
| `retain B` | lets a broker apply its retention now |
| `compact B` | lets a broker's cleaner go round once; prints what it has cleaned |
"""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages import (
    alter_partition_reassignments,
    create_partitions,
    delete_records,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    list_offsets,
)
from odradek.sim.checkers.history import History
from odradek.sim.clients.client import RequestFailed, SimClient
from odradek.sim.scenario.text import SHORT, Words, listed, partition_of
from odradek.sim.world import PORT
from odradek.store import layout
from odradek.store.api import Set

if TYPE_CHECKING:
    from odradek.sim.world import SimBroker, World

TOPIC_RESOURCE, SET = 2, 0
LATEST = -1


class Administrating:
    """Mixed into the stage of a scenario."""

    if TYPE_CHECKING:

        @property
        def world(self) -> "World": ...
        @property
        def client(self) -> SimClient: ...

    history: History
    _call: Callable[[Coroutine[Any, Any, Any]], Any]
    _until: Callable[[Callable[[], bool], str], None]
    _broker: "Callable[[str], SimBroker]"

    # --- brokers

    def do_terminate(self, words: Words) -> None:
        self._broker(words.plain[0]).stop()

    def do_retain(self, words: Words) -> Iterator[str]:
        runtime = self._broker(words.plain[0]).runtime
        assert runtime is not None
        logs = runtime.broker.replicas.logs
        for lines, _ in logs.retention(
            runtime.now_ms(), runtime._high_watermark_of, runtime._log_start_moved
        ):
            yield from lines

    def do_compact(self, words: Words) -> Iterator[str]:
        runtime = self._broker(words.plain[0]).runtime
        assert runtime is not None and runtime.parts is not None
        is_cleaned = self._call(runtime.parts.disk._cleaning.round())
        yield "compacted" if is_cleaned else "nothing is due"

    def do_slow_store(self, words: Words) -> None:
        link = self._broker(words.plain[0]).link
        assert link is not None
        link.answers_take_s = float(words.plain[1])

    def do_slow_calls(self, words: Words) -> None:
        link = self._broker(words.plain[0]).link
        assert link is not None
        link.calls_take_s = float(words.plain[1])

    def do_depose(self, words: Words) -> None:
        self.world.depose()

    # --- topics

    def _asked(self, request: Any, code_of: Callable[[Any], int], via: str | None = None) -> str:
        self._call(self.client.refresh([]))
        client = self.client
        ask = client.ask_controller(request) if via is None else client.ask((f"b{via}", PORT), request)
        try:
            answer = self._call(ask)
        except RequestFailed:
            return "no answer"
        return ErrorCode(code_of(answer)).name

    def _unless_none(self, said: str) -> Iterator[str]:
        if said != ErrorCode.NONE.name:
            yield said

    def do_delete(self, words: Words) -> Iterator[str]:
        (topic,) = words.plain
        request = delete_topics.DeleteTopicsRequest(
            topics=[delete_topics.DeleteTopicState(name=topic)], timeout_ms=1_000
        )
        # What was in it is nobody's any more.
        self.history.events = [e for e in self.history.events if e.topic_partition.topic != topic]
        yield from self._unless_none(self._asked(request, lambda answer: answer.responses[0].error_code))

    def do_wait_gone(self, words: Words) -> None:
        (topic,) = words.plain
        self._until(lambda: self.world.topics.assignment(topic) is None, f"{topic} is gone")

    def do_grow_node(self, words: Words) -> None:
        """As tools did that wrote to the store themselves."""
        topic, count = words.plain
        found = self.world.topics.assignment(topic)
        assert found is not None
        grown = replace(found, partitions={n: found.partitions[0] for n in range(int(count))})
        self.world.write_by_hand(Set(layout.topic_path(topic), layout.encode_topic(grown)))

    def do_add_partitions(self, words: Words) -> Iterator[str]:
        topic, count = words.plain
        request = create_partitions.CreatePartitionsRequest(
            topics=[create_partitions.CreatePartitionsTopic(name=topic, count=int(count), assignments=None)],
            timeout_ms=2_000,
            validate_only=False,
        )
        yield from self._unless_none(self._asked(request, lambda answer: answer.results[0].error_code))

    # --- replicas and leaders

    def do_reassign(self, words: Words) -> Iterator[str]:
        yield from self._alter(partition_of(words.plain[0]), list(listed(words.named["to"])))

    def do_cancel(self, words: Words) -> Iterator[str]:
        yield from self._alter(partition_of(words.plain[0]), None)

    def _alter(self, partition: TopicPartition, target: list[int] | None) -> Iterator[str]:
        row = alter_partition_reassignments.ReassignablePartition(
            partition_index=partition.partition, replicas=target
        )
        request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            topics=[alter_partition_reassignments.ReassignableTopic(name=partition.topic, partitions=[row])],
            timeout_ms=5_000,
        )
        yield from self._unless_none(
            self._asked(
                request, lambda answer: answer.error_code or answer.responses[0].partitions[0].error_code
            )
        )

    def do_assignment(self, words: Words) -> Iterator[str]:
        for text in words.plain:
            partition = partition_of(text)
            found = self.world.topics.assignment(partition.topic)
            if found is None or partition.partition not in found.partitions:
                yield f"{text}: none"
                continue
            held = found.partitions[partition.partition]
            said = f"{text}: {','.join(map(str, held.replicas))}"
            if held.adding_replicas:
                said += f" adding {','.join(map(str, held.adding_replicas))}"
            if held.removing_replicas:
                said += f" removing {','.join(map(str, held.removing_replicas))}"
            yield said

    def do_elect(self, words: Words) -> Iterator[str]:
        kind, text = words.plain
        partition = partition_of(text)
        request = elect_leaders.ElectLeadersRequest(
            election_type={"preferred": 0, "unclean": 1}[kind],
            topic_partitions=[
                elect_leaders.TopicPartitions(topic=partition.topic, partitions=[partition.partition])
            ],
            timeout_ms=2_000,
        )

        def code_of(answer: Any) -> int:
            rows = [row.error_code for t in answer.replica_election_results for row in t.partition_result]
            return int(answer.error_code or (rows[0] if rows else 0))

        yield self._asked(request, code_of, words.named.get("via"))

    # --- configuration and records

    def do_config(self, words: Words) -> Iterator[str]:
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=TOPIC_RESOURCE,
                    resource_name=words.plain[0],
                    configs=[
                        incremental_alter_configs.AlterableConfig(
                            name=SHORT.get(name, name), config_operation=SET, value=value
                        )
                        for name, value in words.named.items()
                    ],
                )
            ],
            validate_only=False,
        )
        yield from self._unless_none(self._asked(request, lambda answer: answer.responses[0].error_code))
        self.world.run_for(0.1)  # brokers hear of it through the store

    def do_delete_records(self, words: Words) -> Iterator[str]:
        partition = partition_of(words.plain[0])
        row = delete_records.DeleteRecordsPartition(
            partition_index=partition.partition, offset=int(words.plain[1])
        )
        request = delete_records.DeleteRecordsRequest(
            topics=[delete_records.DeleteRecordsTopic(name=partition.topic, partitions=[row])],
            timeout_ms=1_000,
        )
        answer = self._ask_leader(partition, request).topics[0].partitions[0]
        yield from self._unless_none(ErrorCode(answer.error_code).name)

    def do_latest(self, words: Words) -> Iterator[str]:
        partition = partition_of(words.plain[0])
        row = list_offsets.ListOffsetsPartition(partition_index=partition.partition, timestamp=LATEST)
        request = list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=[list_offsets.ListOffsetsTopic(name=partition.topic, partitions=[row])],
        )
        answer = self._ask_leader(partition, request).topics[0].partitions[0]
        error = ErrorCode(answer.error_code)
        yield str(answer.offset) if error == ErrorCode.NONE else error.name

    def _ask_leader(self, partition: TopicPartition, request: Any) -> Any:
        async def ask() -> Any:
            await self.client.refresh([partition.topic])
            address, _ = await self.client.leader_of(partition)
            assert address is not None
            return await self.client.ask(address, request)

        return self._call(ask())
