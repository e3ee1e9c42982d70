"""Offsets as values and as the text that Spark keeps and compares."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.errors import ConfigurationError
from odradek.model.ids import TopicPartition
from odradek.spark.offsets import Offsets, Place, advanced, limited

ORDERS = bytes(range(16))
places = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["orders", "flights"]), st.integers(0, 30)),
    st.builds(Place, st.integers(0, 2**60), st.integers(-1, 1000)),
)


@given(places)
def test_the_text_does_not_depend_on_the_order_things_came_in(found: dict[TopicPartition, Place]) -> None:
    ids = {"orders": ORDERS, "flights": bytes(16)}
    backwards = dict(reversed(found.items()))
    text = json.dumps(Offsets(ids, found).to_json())

    assert json.dumps(Offsets(dict(reversed(ids.items())), backwards).to_json()) == text
    assert json.dumps(Offsets(ids, found).to_json(), sort_keys=True) == text
    again = Offsets.from_json(json.loads(text))
    assert dict(again.places) == found
    assert json.dumps(again.to_json()) == text


def test_the_form_is_what_it_was() -> None:
    """Checkpoints of yesterday must be read tomorrow."""
    offsets = Offsets(
        {"orders": ORDERS}, {TopicPartition("orders", 10): Place(5, 2), TopicPartition("orders", 9): Place(7)}
    )

    assert json.dumps(offsets.to_json()) == (
        '{"orders": {"epochs": {"10": 2, "9": -1}, "id": "AAECAwQFBgcICQoLDA0ODw", "offsets": {"10": 5, "9": 7}}}'
    )


def test_the_form_of_sparks_own_connector_is_read() -> None:
    found = Offsets.from_json({"orders": {"0": 17, "1": -2}})

    assert found.places == {TopicPartition("orders", 0): Place(17), TopicPartition("orders", 1): Place(-2)}
    assert found.topic_ids == {}


@pytest.mark.parametrize(
    "nonsense",
    [
        *({"orders": 5}, {"orders": {"x": 1}}, {"orders": {"0": "much"}}, {"orders": None}),
        *({"orders": {"0": -3}}, {"orders": {"0": 2**63}}, {"orders": {"0": 1.7}}, {"orders": {"0": True}}),
        *({"orders": {"0": 1, "00": 2}}, {"orders": {"-1": 1}}, {"orders": {"1_0": 1}}),
    ],
)
def test_nonsense_is_refused_with_the_form_that_would_work(nonsense: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=r"startingOffsets: expected .*-1 for latest"):
        Offsets.from_json(nonsense, "startingOffsets")


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 10**6)), min_size=1, max_size=10),
    st.integers(1, 10**6),
)
def test_a_limit_is_met_exactly_and_shared_in_proportion(waiting: list[tuple[int, int]], most: int) -> None:
    start = {TopicPartition("orders", n): Place(begin) for n, (begin, _) in enumerate(waiting)}
    end = {TopicPartition("orders", n): Place(begin + size, 3) for n, (begin, size) in enumerate(waiting)}

    cut = limited(start, end, most)

    read = {p: cut[p].offset - start[p].offset for p in end}
    total = sum(size for _, size in waiting)
    assert sum(read.values()) == min(most, total)
    for partition, count in read.items():
        size = end[partition].offset - start[partition].offset
        assert 0 <= count <= size
        if total > most:
            assert abs(count - most * size / total) < 1


def test_beside_a_partition_that_is_far_behind_none_waits_for_ever() -> None:
    """As Spark's connector has it: a small one gets an offset at least."""
    large, small = (TopicPartition("orders", number) for number in (0, 1))
    start = {large: Place(0), small: Place(0)}

    found = limited(start, {large: Place(10**12), small: Place(3)}, 1000)

    assert (found[small].offset, found[large].offset) == (1, 999)


def test_a_partition_that_is_new_is_limited_from_its_beginning() -> None:
    end = {TopicPartition("orders", 0): Place(100)}

    assert limited({}, end, 30) == {TopicPartition("orders", 0): Place(30)}


def test_a_place_below_the_end_has_the_epoch_of_the_leader_that_told_the_end() -> None:
    """Its log reaches that far: whether another leader's does is asked by this epoch."""
    partition = TopicPartition("orders", 0)

    assert limited({partition: Place(10, 3)}, {partition: Place(50, 5)}, 20) == {partition: Place(30, 5)}


def test_an_election_without_a_new_record_changes_nothing() -> None:
    """Spark compares offsets as text: another epoch alone would start an empty batch, for ever."""
    partition = TopicPartition("orders", 0)

    assert advanced({partition: Place(10, 3)}, {partition: Place(10, 4)}) == {partition: Place(10, 3)}
    assert advanced({partition: Place(10, 3)}, {partition: Place(11, 4)}) == {partition: Place(11, 4)}
