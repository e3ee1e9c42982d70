"""Exactly once with confluent-kafka."""

import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition


def main(bootstrap: str, source: str, target: str, group: str, name: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.instance.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions()
    consumer.subscribe([source])
    while True:
        messages = consumer.consume(20, timeout=1.0)
        if not messages:
            continue
        producer.begin_transaction()
        following: dict[int, int] = {}
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
            producer.produce(target, message.value(), partition=message.partition())
            following[message.partition()] = message.offset() + 1
        offsets = [TopicPartition(source, partition, offset) for partition, offset in following.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        producer.commit_transaction()


if __name__ == "__main__":
    main(*sys.argv[1:])
