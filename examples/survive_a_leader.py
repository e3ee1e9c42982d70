"""Three brokers; the leader is killed while we produce; nothing is lost."""

import tempfile

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing.process_cluster import ProcessCluster

with tempfile.TemporaryDirectory() as directory, ProcessCluster(directory, brokers=3) as cluster:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = NewTopic("orders", num_partitions=1, replication_factor=3, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])["orders"].result()
    acknowledged = 0

    def on_delivery(error, message):
        global acknowledged
        assert error is None, error
        acknowledged += 1

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "acks": "all"})
    for number in range(10_000):
        if number == 5_000:
            leader = admin.list_topics("orders").topics["orders"].partitions[0].leader
            cluster.kill(leader)
            print(f"broker {leader} led orders-0 and got kill -9")
        producer.produce("orders", str(number), on_delivery=on_delivery)
        producer.poll(0)
    producer.flush()
    leader = admin.list_topics("orders").topics["orders"].partitions[0].leader
    print(f"broker {leader} leads now; {acknowledged} of 10000 records are acknowledged")
