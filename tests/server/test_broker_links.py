"""The connections from one broker to another: which request goes over which, and which wait for each other."""

from types import SimpleNamespace
from typing import Any

from odradek.broker.effects import SendToBroker
from odradek.model.ids import BrokerId
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from odradek.server.broker_links import BrokerLinks


class Link:
    """Answers in the order in which it was asked, as a broker does."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.asked: list[tuple[int, Any]] = []

    def send(self, key: int, version: int, body: Any, answered: Any) -> None:
        self.asked.append((key, answered))

    def close(self, reason: str) -> None:
        for _, answered in self.asked:
            answered(None, reason)


def test_a_question_to_a_coordinator_waits_behind_no_marker_that_waits_for_followers() -> None:
    made: list[Link] = []

    def to(host: str, port: int) -> Link:
        made.append(Link(host, port))
        return made[-1]

    log: Any = SimpleNamespace(warning=lambda *_: None, say=lambda *_: None)
    links: Any = SimpleNamespace(to=to, loop=None)
    ways = BrokerLinks(links, log)
    told: list[Any] = []

    def send(message: Any, version: int, port: int = 1) -> None:
        endpoint: Any = SimpleNamespace(host="h", port=port)
        ways.send(SendToBroker(0, BrokerId(2), endpoint, message.KEY, version, message), told.append)

    markers, question = WriteTxnMarkersRequest(markers=[]), AddPartitionsToTxnRequest(transactions=[])
    for message, version in ((markers, 1), (question, 4), (markers, 1)):
        send(message, version)
    assert [[key for key, _ in link.asked] for link in made] == [[markers.KEY, markers.KEY], [question.KEY]]

    send(question, 4, port=2)
    assert told == [None], "of the former address of its kind alone"
    assert [link.port for link in made] == [1, 1, 2]
