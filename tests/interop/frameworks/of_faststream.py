"""A FastStream application: what is read from one topic is written to another, at least once.

Arguments: BOOTSTRAP SOURCE TARGET GROUP NAME, as of the loops in tests/clients/transforms. NACK_ON_ERROR commits behind the
handler, and not on a timer.
"""

import asyncio
import sys

from faststream import AckPolicy, FastStream
from faststream.confluent import KafkaBroker


def application(bootstrap: str, source: str, target: str, group: str, name: str) -> FastStream:
    broker = KafkaBroker(bootstrap, client_id=name)

    @broker.subscriber(
        source, group_id=group, auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR
    )
    @broker.publisher(target)
    async def transform(body: bytes) -> bytes:
        return body

    return FastStream(broker)


if __name__ == "__main__":
    asyncio.run(application(*sys.argv[1:]).run())
