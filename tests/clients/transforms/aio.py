"""Exactly once with aiokafka."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def main(bootstrap: str, source: str, target: str, group: str, name: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    async with producer, consumer:
        while True:
            found = await consumer.getmany(timeout_ms=1_000, max_records=20)
            if not found:
                continue
            async with producer.transaction():
                for messages in found.values():
                    for message in messages:
                        await producer.send(target, message.value, partition=message.partition)
                offsets = {place: messages[-1].offset + 1 for place, messages in found.items()}
                await producer.send_offsets_to_transaction(offsets, group)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
