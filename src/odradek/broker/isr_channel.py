"""AlterPartition: proposals of all partitions led here, one request in flight, nothing lost on the way.

A proposal waits here until the next request is built, which has room for MOST_PARTITIONS; what is sent is what the partition
proposes then. A
request that cannot be delivered, or that the controller refuses as a whole (NOT_CONTROLLER,
STALE_BROKER_EPOCH), says nothing about what was committed: the partitions propose the same again.
"""

from odradek.broker.effects import Effect, SendToController
from odradek.broker.organs import Organ
from odradek.broker.pending_calls import PendingCalls
from odradek.model.cluster import LeaderAndIsr
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import (
    NO_TOPIC_ID,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
)
from odradek.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)
from odradek.replication.isr import IsrAnswer, IsrProposal
from odradek.replication.partition import UNSETTLED_RETRY_MS
from odradek.replication.waiting import Outbox, Proposing

ALTER_PARTITION = 56
MAX_VERSION = 3  # names members with their epochs (KIP-903)
MAX_VERSION_BY_NAME = 1
# In one request: some milliseconds of the turn that builds it, and of the controller's.
MOST_PARTITIONS = 1_000


class IsrChannel(Organ):
    """Invariant: a partition in a pending ISR state is in the outbox, `_waiting`, `_in_flight` or `_retries`."""

    def __init__(self, broker: BrokerId, outbox: Outbox, effects: list[Effect], calls: PendingCalls) -> None:
        self.broker = broker
        self.broker_epoch: BrokerEpoch | None = None  # None: not registered, nobody to ask as
        self._outbox = outbox
        self._effects = effects
        self._calls = calls
        self._waiting: dict[TopicPartition, Proposing] = {}
        self._in_flight: dict[TopicPartition, tuple[Proposing, IsrProposal]] = {}
        self._retries: dict[TopicPartition, tuple[int, Proposing]] = {}
        self.due_ms = None  # of the first of them; asked for in every turn
        # Of partitions led here, since the start: who left the ISR, and who joined it.
        self.shrinks = 0
        self.expansions = 0

    def send_proposals(self) -> None:
        """What partitions have left in the outbox, and what waits here: together, unless a request is in flight."""
        for partition in self._outbox.proposals:
            self._waiting[partition.topic_partition] = partition
        self._outbox.proposals.clear()
        request = self._next_request()
        if request is not None:
            self._effects.append(request)

    def _next_request(self) -> SendToController | None:
        """The request to send now; None while one is in flight or nothing is proposed."""
        if self._in_flight or not self._waiting or self.broker_epoch is None:
            return None
        done: list[TopicPartition] = []
        topics: dict[str, AlterPartitionRequestTopicData] = {}
        by_name = False
        for topic_partition, partition in self._waiting.items():
            if len(self._in_flight) >= MOST_PARTITIONS:
                break  # the others when this is answered
            done.append(topic_partition)
            proposal = partition.proposal(self.broker_epoch)
            if proposal is None:
                continue
            by_name = by_name or proposal.topic_id == NO_TOPIC_ID
            self._in_flight[topic_partition] = partition, proposal
            topic = topics.get(topic_partition.topic)
            if topic is None:
                topic = topics[topic_partition.topic] = AlterPartitionRequestTopicData(
                    topic_name=topic_partition.topic, topic_id=proposal.topic_id, partitions=[]
                )
            topic.partitions.append(_partition_data(proposal))
        for topic_partition in done:
            del self._waiting[topic_partition]
        if not self._in_flight:
            return None
        message = AlterPartitionRequest(
            broker_id=self.broker, broker_epoch=self.broker_epoch, topics=list(topics.values())
        )
        version = MAX_VERSION_BY_NAME if by_name else MAX_VERSION
        return SendToController(self._calls.expect(self._answered), ALTER_PARTITION, message, version)

    def _answered(self, response: AlterPartitionResponse | None, now_ms: int) -> None:
        """None: not delivered, or no answer came."""
        in_flight, self._in_flight = self._in_flight, {}
        answers: dict[TopicPartition, AlterPartitionResponsePartitionData] = {}
        if response is not None and response.error_code == ErrorCode.NONE:
            names = {proposal.topic_id: tp.topic for tp, (_, proposal) in in_flight.items()}
            for topic in response.topics:
                name = topic.topic_name or names.get(bytes(topic.topic_id), "")  # type: ignore[call-overload]
                for data in topic.partitions:
                    answers[TopicPartition(name, data.partition_index)] = data
        for topic_partition, (partition, proposal) in in_flight.items():
            answer = answers.get(topic_partition)
            if answer is None:
                pause = UNSETTLED_RETRY_MS
            else:
                before = partition.isr
                settled = partition.isr_answered(proposal, _isr_answer(answer), now_ms)
                if settled is None:
                    self._count(before, partition.isr)
                    continue
                pause = settled
            self._retries[topic_partition] = now_ms + pause, partition
        self._note_first_retry()
        self.send_proposals()

    def _count(self, before: tuple[BrokerId, ...], after: tuple[BrokerId, ...]) -> None:
        self.shrinks += not set(before) <= set(after)
        self.expansions += not set(after) <= set(before)

    def tick(self, now_ms: int) -> None:
        if self.due_ms is not None and self.due_ms <= now_ms:
            self._retry(now_ms)
        self.send_proposals()

    def _retry(self, now_ms: int) -> None:
        for topic_partition, (due_ms, partition) in list(self._retries.items()):
            if due_ms <= now_ms:
                del self._retries[topic_partition]
                partition.propose_again(now_ms)
        self._note_first_retry()

    def _note_first_retry(self) -> None:
        self.due_ms = min((due_ms for due_ms, _ in self._retries.values()), default=None)


def _partition_data(proposal: IsrProposal) -> AlterPartitionRequestPartitionData:
    return AlterPartitionRequestPartitionData(
        partition_index=proposal.topic_partition.partition,
        leader_epoch=proposal.leader_epoch,
        new_isr=[broker for broker, _ in proposal.new_isr],
        new_isr_with_epochs=[
            BrokerState(broker_id=broker, broker_epoch=epoch) for broker, epoch in proposal.new_isr
        ],
        leader_recovery_state=0,
        partition_epoch=proposal.partition_epoch,
    )


def _isr_answer(data: AlterPartitionResponsePartitionData) -> IsrAnswer:
    try:
        error = ErrorCode(data.error_code)
    except ValueError:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    leadership = LeaderAndIsr(
        leader=BrokerId(data.leader_id),
        leader_epoch=LeaderEpoch(data.leader_epoch),
        isr=tuple(BrokerId(member) for member in data.isr),
        partition_epoch=PartitionEpoch(data.partition_epoch),
        leader_recovery_state=data.leader_recovery_state,
        elr=tuple(BrokerId(replica) for replica in data.eligible_leader_replicas),
    )
    return IsrAnswer(error, leadership)
