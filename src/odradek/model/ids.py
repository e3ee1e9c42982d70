"""Names for the numbers that must not be swapped by accident, and the keys everything is looked up by."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)  # czxid of the registration node
Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
PartitionEpoch = NewType("PartitionEpoch", int)  # store version of the partition's state node
ControllerEpoch = NewType("ControllerEpoch", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
TopicId = NewType("TopicId", bytes)  # 16 bytes, as on the wire

# As wide as ids of partitions and brokers, and counts of them, are on the wire.
INT32_MAX = 2**31 - 1
LAST_PORT = 65_535

NO_LEADER = BrokerId(-1)
# KIP-570: the leader of a partition whose topic is being deleted, told in UpdateMetadata.
LEADER_DURING_DELETE = BrokerId(-2)
NO_EPOCH = LeaderEpoch(-1)
EPOCH_DURING_DELETE = LeaderEpoch(-2)
UNKNOWN_BROKER_EPOCH = BrokerEpoch(-1)
NO_TOPIC_ID = TopicId(bytes(16))


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def in_order(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """As `sorted`; of a set of 100,000 in half the time, for numbers and texts compare quicker than pairs of them."""
    return sorted(sorted(partitions, key=itemgetter(1)), key=itemgetter(0))


def number_in(text: str, largest: int = INT32_MAX) -> int | None:
    """The number of a partition or a broker, or how many of them, as somebody wrote it; None where it is none, or larger.

    `str.isdigit` alone is no answer: it is true of a superscript, and of more digits than `int` takes.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(largest))):
        return None
    number = int(text)
    return number if number <= largest else None


def name_in_digits(text: str) -> int | None:
    """As `number_in`, of a name that has one spelling: None of `01`, which would be another name of 1."""
    number = number_in(text)
    return None if number is None or str(number) != text else number


# `urlsafe_b64decode` leaves out what is no base64, and makes a shorter id of the rest.
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")


def topic_id_to_text(topic_id: TopicId) -> str:
    """Kafka's form: URL-safe base64 without padding, 22 characters."""
    return urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


def topic_id_from_text(text: str) -> TopicId:
    """Raises ValueError unless `text` is 22 characters of URL-safe base64."""
    if _TOPIC_ID.fullmatch(text) is None:
        raise ValueError(f"topic id {text!r}: expected 22 characters of URL-safe base64")
    return TopicId(urlsafe_b64decode(text + "=="))
