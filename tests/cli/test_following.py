"""Where a reader that waits for more reads on, of a topic that is another one by then."""

from types import SimpleNamespace
from typing import Any

import pytest

from odradek.cli.topic.following import Following
from odradek.model.ids import TopicPartition

WHERE = TopicPartition("t", 0)


def test_the_end_of_a_topic_that_was_deleted_is_none_of_the_new_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Asked just before. The new one has no record there, perhaps for days, and would be waited for up to it."""
    client: Any = SimpleNamespace(topic=lambda name, is_known: SimpleNamespace(topic_id=b"new"))
    positions = {WHERE: 7}
    following = Following(client, "t", b"old", positions)
    ends = {WHERE: 9}
    following.reaches(ends)
    assert (positions, ends) == ({WHERE: 0}, {WHERE: 0})
    ends = {WHERE: 2}
    following.reaches(ends)
    assert (positions, ends) == ({WHERE: 0}, {WHERE: 2})
    assert capsys.readouterr().err.count("was deleted and created again") == 1
