"""What comes over a link as a message, and what is said where none does."""

import logging

import pytest

from odradek.protocol.messages.api_versions import ApiVersionsResponse
from odradek.server.links import decoded
from odradek.server.log_limits import LimitedLog

API_VERSIONS = 18


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (None, "broker 7 cannot be asked: the connection was closed"),
        (memoryview(b"\0"), "broker 7 sent a response that cannot be read: "),
    ],
)
def test_no_answer_and_one_that_cannot_be_read_are_none_and_said(
    body: memoryview | None, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = LimitedLog(logging.getLogger("odradek.server"), lambda: 0.0)
    answer = decoded(
        body, "the connection was closed", api_key=API_VERSIONS, version=0, whom="broker 7", log=log
    )
    assert answer is None
    assert [message.startswith(said) for message in caplog.messages] == [True]


def test_an_answer_is_a_message(caplog: pytest.LogCaptureFixture) -> None:
    log = LimitedLog(logging.getLogger("odradek.server"), lambda: 0.0)
    sent = ApiVersionsResponse(error_code=35)
    body = memoryview(sent.encode(0))
    assert decoded(body, "", api_key=API_VERSIONS, version=0, whom="broker 7", log=log) == sent
    assert caplog.messages == []
