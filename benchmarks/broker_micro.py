"""What one request costs inside `Broker.handle`, sockets left out: `python benchmarks/broker_micro.py`.

- produce acks=1: one partition, one record of 100 bytes, replication factor 1: decode, check, append, encode.
- produce acks=all: the same with two followers in this process, driven by hand: the produce, each follower's
  answer decoded and appended, and the fetches that acknowledge it.
Medians of rounds, in microseconds of CPU time; disks are real directories (page cache).
"""

import cProfile
import pstats
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.broker.world import World, batch

from odradek.broker.answers import Park, Reply
from odradek.broker.request import ConnectionInfo, Request
from odradek.protocol.headers import decode_request_header, response_header
from odradek.protocol.messages import produce as pm

ROUNDS = 15
PER_ROUND = 400


def produce_body(acks: int) -> bytes:
    return pm.ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[
            pm.TopicProduceData(
                name="t", partition_data=[pm.PartitionProduceData(index=0, records=batch(b"x" * 100))]
            )
        ],
    ).encode(9)


def produce_acks_1(path: Path) -> float:
    world = World(path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    broker = world[1].broker
    body = produce_body(1)
    connection = ConnectionInfo(1, "127.0.0.1:1", "PLAINTEXT")
    rounds = []
    for _ in range(ROUNDS):
        bodies = [memoryview(bytearray(body)) for _ in range(PER_ROUND)]
        began = time.process_time()
        for view in bodies:
            answer = broker.handle(Request(0, 9, 1, "c", view, connection), world.now_ms)
            broker.take_effects()
        rounds.append((time.process_time() - began) / PER_ROUND)
        assert isinstance(answer, Reply)
    return statistics.median(rounds) * 1e6


class Link:
    """A follower's connection, frames moved by hand."""

    def __init__(self, world: World, follower: int) -> None:
        self.world = world
        self.node = world[follower]
        self.fetcher = self.node.fetchers[1]
        self.leader = world[1].broker
        self.connection = self.node.connections[1]
        self.answers: list[tuple[bytes, object]] = []

    def send(self) -> None:
        frame = self.fetcher.next_request(self.world.now_ms)
        while frame is not None:
            header = decode_request_header(memoryview(frame)[4:])
            view = memoryview(frame)[4 + header.body_offset :]
            prefix = response_header(header.api_key, header.api_version, header.correlation_id)
            answer = self.leader.handle(Request(*header[:4], view, self.connection), self.world.now_ms)
            if isinstance(answer, Park):
                answer.on_complete(lambda result, prefix=prefix: self.answers.append((prefix, result)))
            else:
                self.answers.append((prefix, answer))
            frame = self.fetcher.next_request(self.world.now_ms)

    def receive(self) -> bool:
        answers, self.answers = self.answers, []
        for prefix, result in answers:
            body = b"".join(
                b if isinstance(b, bytes | bytearray | memoryview) else b.read() for b in result.buffers
            )
            self.fetcher.handle_response(memoryview(prefix + body), self.world.now_ms)
            self.node.broker.take_effects()
            self.send()
        return bool(answers)


def acks_all_world(path: Path) -> tuple[World, list[Link]]:
    world = World(path)
    world.lead(1, is_new=True)
    links = [Link(world, 2), Link(world, 3)]
    # What the world's own pump had in flight is answered through the links from here on.
    for link in links:
        (_, pending) = link.node.in_flight[1].popleft()
        link.answers = []
        pending.put = lambda result, link=link, prefix=pending.prefix: link.answers.append((prefix, result))
        wait = link.connection.parked
        wait.park._callback = pending.put
    return world, links


def one_acks_all(world: World, links: list[Link], view: memoryview, connection: ConnectionInfo) -> None:
    broker = world[1].broker
    done: list[object] = []
    answer = broker.handle(Request(0, 9, 1, "c", view, connection), world.now_ms)
    assert isinstance(answer, Park)
    answer.on_complete(done.append)
    broker.take_effects()
    while any([link.receive() for link in links]):
        broker.take_effects()
    assert done


def produce_acks_all(path: Path) -> float:
    world, links = acks_all_world(path)
    body = produce_body(-1)
    connection = ConnectionInfo(1_000, "127.0.0.1:1", "PLAINTEXT")
    rounds = []
    for _ in range(ROUNDS):
        bodies = [memoryview(bytearray(body)) for _ in range(PER_ROUND)]
        began = time.process_time()
        for view in bodies:
            one_acks_all(world, links, view, connection)
        rounds.append((time.process_time() - began) / PER_ROUND)
    return statistics.median(rounds) * 1e6


def profiled(path: Path) -> None:
    world, links = acks_all_world(path)
    body = produce_body(-1)
    connection = ConnectionInfo(1_000, "127.0.0.1:1", "PLAINTEXT")
    bodies = [memoryview(bytearray(body)) for _ in range(3_000)]
    profile = cProfile.Profile()
    profile.enable()
    for view in bodies:
        one_acks_all(world, links, view, connection)
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(35)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        if "--profile" in sys.argv:
            profiled(Path(directory))
            return
        print(f"produce acks=1, 100 B, one partition      {produce_acks_1(Path(directory) / 'one'):7.1f} us")
        cost = produce_acks_all(Path(directory) / "all")
        print(f"produce acks=all with two followers, all  {cost:7.1f} us")


if __name__ == "__main__":
    main()
