"""Which names a topic may have: the rule of Kafka's `Topic.validate`, in its words. And the two that are the brokers' own."""

from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError

GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"

LONGEST_NAME = 249
LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def problem_with(topic: str) -> str | None:
    """None for a name that may be used. The name of a directory is made of it."""
    if not topic:
        return "the empty string is not allowed"
    if topic in (".", ".."):
        return f"'{topic}' is not allowed"
    if len(topic) > LONGEST_NAME:
        return f"the length of '{topic}' is longer than the max allowed length {LONGEST_NAME}"
    if not LEGAL.issuperset(topic):
        return f"'{topic}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_topic_name(topic: str) -> None:
    problem = problem_with(topic)
    if problem is not None:
        raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
