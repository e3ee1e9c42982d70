"""Finding a topic, or saying which ones there are."""

from typing import TYPE_CHECKING, NoReturn

from odradek.cli.output import fail

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient, TopicView


def topic_or_fail(client: "SyncClient", name: str) -> "TopicView":
    from odradek.model.error_codes import ErrorCode
    from odradek.model.errors import ProtocolError

    try:
        return client.topic(name, timeout_s=10)
    except ProtocolError as error:
        if error.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
            fail_of_a_bad_name(name)
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    no_such_topic(client, name)


def fail_of_a_bad_name(name: str) -> None:
    """Metadata has a code for that and no word on what is wrong with it."""
    from odradek.model.topic_names import problem_with

    if problem := problem_with(name):
        fail(f"topic name is invalid: {problem}")


def no_such_topic(client: "SyncClient", name: str) -> NoReturn:
    from odradek.model.settings import nearest

    there = client.cluster().topics
    guess = nearest(name, there)
    if guess:
        fail(f"there is no topic {name}; did you mean {guess}?")
    shown = ", ".join(sorted(there)[:10]) or "none"
    fail(f"there is no topic {name}; topics there are: {shown}{', ...' if len(there) > 10 else ''}")
