"""Exactly once with kafka-python.

3.0.12 forgets the request that ends a transaction where its coordinator cannot be reached at that moment, and then waits
for the answer for ever. So a transaction that takes longer than `PATIENCE_S` ends the process.
"""

import signal
import sys

from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata

PATIENCE_S = 10


def main(bootstrap: str, source: str, target: str, group: str, name: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), transactional_id=name)
    producer.init_transactions()
    consumer = KafkaConsumer(
        source,
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        group_instance_id=name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    while True:
        signal.alarm(PATIENCE_S)
        found = consumer.poll(timeout_ms=1_000, max_records=20)
        if not found:
            continue
        producer.begin_transaction()
        for messages in found.values():
            for message in messages:
                producer.send(target, message.value, partition=message.partition)
        offsets = {
            place: OffsetAndMetadata(messages[-1].offset + 1, "", -1) for place, messages in found.items()
        }
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.commit_transaction()


if __name__ == "__main__":
    main(*sys.argv[1:])
