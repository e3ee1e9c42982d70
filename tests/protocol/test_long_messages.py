"""Sentences beside an error code: whatever they quote, they are short enough. Any other string that has no room is refused."""

from typing import Any

import pytest

from odradek.protocol import reference
from odradek.protocol.api_keys import APIS
from odradek.protocol.fields import Struct
from odradek.protocol.flat import produce_response
from odradek.protocol.messages import create_topics as ct
from odradek.protocol.messages import produce as pm
from odradek.protocol.messages import response_class
from odradek.protocol.primitives import MAX_STRING_BYTES, MOST_MESSAGE_BYTES, message_bytes
from tests.support import each

SENTENCES = [
    "x" * MOST_MESSAGE_BYTES,
    "begins " + "x" * MOST_MESSAGE_BYTES + " ends",
    "begins " + "x" * MAX_STRING_BYTES + " ends",
    "begins " + "ü価👩" * 20_000 + " ends",
    "begins " + "ü" * (MOST_MESSAGE_BYTES // 2 - 10) + " ends",
]


def with_messages(cls: type[Struct], version: int, sentence: str) -> Any:
    """A message with a row in each array and the sentence wherever one has its place."""
    value = cls()
    for line in cls.TABLE:
        if version not in line.versions:
            continue
        if line.is_message:
            setattr(value, line.name, sentence)
        elif line.kind == "array" and isinstance(line.of, type):
            setattr(value, line.name, [with_messages(line.of, version, sentence)])
    return value


def messages_of(value: Any) -> list[str]:
    found = []
    for line in value.TABLE:
        inner = getattr(value, line.name)
        if line.is_message and inner:
            found.append(inner)
        elif line.kind == "array" and isinstance(line.of, type):
            found += [text for row in inner or () for text in messages_of(row)]
    return found


def responses() -> list[tuple[Any, int]]:
    classes = [response_class(key) for key in APIS]
    return [
        (cls, version)
        for cls in classes
        for version in (cls.VERSIONS.first, cls.VERSIONS.last)
        if messages_of(with_messages(cls, version, "said"))
    ]


@each(
    [(cls, version, sentence) for cls, version in responses() for sentence in SENTENCES],
    lambda case: f"{case[0].__name__} {case[1]}, {len(case[2])} letters",
)
def test_a_sentence_is_cut_in_the_middle_where_it_is_long(cls: Any, version: int, sentence: str) -> None:
    message = with_messages(cls, version, sentence)
    encoded = message.encode(version)
    assert encoded == reference.encode(message, version)
    for text in messages_of(cls.decode(version, encoded)):
        assert len(text.encode()) <= MOST_MESSAGE_BYTES
        if len(sentence.encode()) <= MOST_MESSAGE_BYTES:
            assert text == sentence
        else:
            assert text.startswith("begins ") and " ... " in text and text.endswith(" ends")


@pytest.mark.parametrize("version", [8, 9, 10])
def test_the_flat_answer_to_a_producer_cuts_them_in_the_same_places(version: int) -> None:
    for sentence in SENTENCES:
        row = pm.PartitionProduceResponse(
            index=3,
            error_code=87,
            record_errors=[pm.BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message=sentence)],
            error_message=sentence,
        )
        by_table = pm.ProduceResponse(
            responses=[pm.TopicProduceResponse(name="t", partition_responses=[row])]
        )
        answer = (3, 87, row.base_offset, row.log_append_time_ms, row.log_start_offset)
        flat = produce_response.encode(version, [("t", [(*answer, [(1, sentence)], sentence, None)])])
        assert flat == by_table.encode(version)


def test_a_name_that_is_too_long_is_refused_and_not_changed() -> None:
    row = ct.CreatableTopicResult(name="a" * (MAX_STRING_BYTES + 1))
    answer = ct.CreateTopicsResponse(topics=[row])
    for version in (4, 7):  # before flexible fields, and with them
        with pytest.raises(ValueError, match="name: 32768 bytes"):
            answer.encode(version)
        with pytest.raises(ValueError, match="name: 32768 bytes"):
            reference.encode(answer, version)


def test_no_more_of_a_sentence_is_encoded_than_is_looked_at() -> None:
    class Long(str):
        def encode(self, *_: str) -> bytes:
            raise AssertionError("all of it")

    assert len(message_bytes(Long("x" * (MOST_MESSAGE_BYTES + 1)))) <= MOST_MESSAGE_BYTES
