"""What would happen if broker 3 died? The controller's own step answers, without any cluster."""

from odradek.advisor.what_if import context_of, what_if
from odradek.model.cluster import BrokerRegistration, LeaderAndIsr, ReplicaAssignment, TopicConfig
from odradek.model.facts import MetadataLoaded, StoredPartitionState, TopicAssignment
from odradek.model.ids import TopicPartition

replicas = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}
snapshot = MetadataLoaded(
    brokers=tuple(BrokerRegistration(broker, 0, ()) for broker in (1, 2, 3)),
    topics=(TopicAssignment("orders", None, {p: ReplicaAssignment(r) for p, r in replicas.items()}),),
    states={
        TopicPartition("orders", p): StoredPartitionState(LeaderAndIsr(r[0], 0, r[:2]), 1)
        for p, r in replicas.items()
    },
    topic_configs={"orders": TopicConfig({"min.insync.replicas": "2"})},
)
for outcome in what_if(context_of(snapshot), kill=[3]).outcomes:
    print(
        f"{outcome.topic_partition}: {outcome.verdict}; leader {outcome.leader_before} -> {outcome.leader_after}, "
        f"in sync {outcome.isr_before} -> {outcome.isr_after}"
    )
