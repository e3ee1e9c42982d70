"""What a test asks of a cluster before and between its own steps, over the protocol as any client does."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from odradek.client.sync import CONTROLLER, PartitionView, SyncClient
from odradek.client.sync_connection import ConnectionLost, DeadlineExceeded, Unreachable, answered
from odradek.model.counted import counted
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ConfigurationError, OdradekError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.testing.checked import checked_texts

# Faults that a test injects are for its own clients, not for this one.
CLIENT_ID = "odradek-testing"
ANSWER_S = 5.0  # of one request; a broker that has just died may have been asked
PREFERRED = 0
PAUSE_S = 0.01


class Administered:
    """A cluster that can be asked; `_answering` are the addresses of brokers that run and are not paused."""

    def _answering(self) -> list[str]:
        raise NotImplementedError

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        deadline_s: float = 30.0,
    ) -> None:
        """Each partition has a leader when it returns. `replication_factor` -1: `default.replication.factor`."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[
                CreatableTopicConfig(name=key, value=value)
                for key, value in checked_texts(configs or {}).items()
            ],
        )
        with self._client(deadline_s, answer_s=deadline_s) as client:
            request = CreateTopicsRequest(topics=[topic], timeout_ms=int(deadline_s * 1000))
            there = ErrorCode.TOPIC_ALREADY_EXISTS
            self._ask(client, request, lambda answer: answer.topics[0], f"topic {name}", done_before=there)
            client.topic(name, timeout_s=deadline_s, is_new=True)

    def leader(self, topic: str, partition: int = 0) -> int:
        """Its broker id; -1: it has none."""
        return self._partition(topic, partition).leader

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        return self._partition(topic, partition).isr

    def move_leader(self, topic: str, partition: int = 0, *, to: int, deadline_s: float = 30.0) -> None:
        """Broker `to`, which has a replica of it, leads the partition when it returns, and is its preferred leader."""
        about = str(TopicPartition(topic, partition))
        found = self._partition(topic, partition)
        if to not in found.replicas:
            raise ConfigurationError(f"{about}: broker {to} has no replica of it; {found.replicas} have")
        order = [to, *(broker for broker in found.replicas if broker != to)]
        with self._client(deadline_s) as client:
            if list(found.replicas) != order:
                move = ReassignablePartition(partition_index=partition, replicas=order)
                request = AlterPartitionReassignmentsRequest(
                    topics=[ReassignableTopic(name=topic, partitions=[move])]
                )
                self._ask(client, request, lambda answer: answer.responses[0].partitions[0], about)
            elected = ElectLeadersRequest(
                election_type=PREFERRED,
                topic_partitions=[TopicPartitions(topic=topic, partitions=[partition])],
            )

            def is_moved() -> bool:
                now = client.topic(topic).partitions[partition]
                if now.leader == to:
                    return True
                if list(now.replicas) == order:  # until then the preferred leader is another
                    try:
                        client.call(CONTROLLER, elected)
                    except (ConnectionLost, Unreachable):
                        return False  # the controller has just died; the next one is asked
                return False

            self.wait_until(is_moved, f"broker {to} leads {about}", deadline_s)

    def wait_until(
        self, holds: Callable[[], bool], what: str, deadline_s: float = 30.0, pause_s: float = PAUSE_S
    ) -> None:
        """TimeoutError names `what` has not come about."""
        end = time.monotonic() + deadline_s
        while not holds():
            if time.monotonic() > end:
                raise self._too_late(f"not within {deadline_s:g} s: {what}")
            time.sleep(pause_s)

    def _too_late(self, sentence: str) -> Exception:
        return TimeoutError(sentence)

    # --- inside

    @contextlib.contextmanager
    def _client(self, deadline_s: float = 30.0, *, answer_s: float | None = None) -> Iterator[SyncClient]:
        answering = self._answering()
        if not answering:
            raise ConfigurationError("no broker can be asked: none runs that is not paused")
        with SyncClient(
            ",".join(answering),
            client_id=CLIENT_ID,
            bootstrap_timeout_s=deadline_s,
            request_timeout_s=ANSWER_S if answer_s is None else answer_s,
        ) as client:
            yield client

    def _partition(self, topic: str, partition: int) -> PartitionView:
        with self._client() as client:
            found = client.topic(topic).partitions
            if partition not in found:
                raise ConfigurationError(
                    f"{topic} has {counted(len(found), 'partition')}, and no {partition}"
                )
            return found[partition]

    def _ask(
        self,
        client: SyncClient,
        request: Any,
        outcome_of: Callable[[Any], Any],
        about: str,
        *,
        done_before: ErrorCode | None = None,
    ) -> None:
        """Of whoever is controller; what it answers about the one thing that was asked for may say that it is not. `done_before`: so it
        answers of what it has done already, as it may have where its answer was lost."""
        was_lost = False

        def ask() -> None:
            nonlocal was_lost
            client.cluster([])  # who is controller by now
            try:
                outcome = outcome_of(client.call(CONTROLLER, request))
            except ConnectionLost:
                was_lost = True
                raise
            if outcome.error_code != ErrorCode.NONE and not (was_lost and outcome.error_code == done_before):
                raise answered(outcome.error_code, about, outcome.error_message)

        try:
            client.retrying(ask, timeout_s=client.request_timeout_s)
        except DeadlineExceeded as error:
            raise OdradekError(f"{about}: no controller did it: {error}") from error
