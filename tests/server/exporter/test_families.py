"""The text of metrics, read by Prometheus's own parser."""

from prometheus_client.parser import text_string_to_metric_families

from odradek.server.exporter.families import CHARACTERS_AT_ONCE, LINES_AT_ONCE, Family, pieces


def test_what_is_written_is_read_back_whatever_stands_in_a_label() -> None:
    family = Family("lag", "gauge", 'a "word" \\ and\na line', ("group", "partition"))
    samples = [
        (('he said "no"', 0), 1),
        (("back\\slash\\n", 1), 2.5),
        (("two\nlines", 2), -3),
        (("ä☃", 3), 10**17),
    ]

    (found,) = text_string_to_metric_families("".join(pieces(family, samples)))

    assert (found.name, found.type, found.documentation) == ("lag", "gauge", family.text)
    assert [(one.labels["group"], int(one.labels["partition"]), one.value) for one in found.samples] == [
        (group, partition, number) for (group, partition), number in samples
    ]


def test_a_counter_keeps_the_name_that_it_has() -> None:
    (found,) = text_string_to_metric_families(
        "".join(pieces(Family("seen_total", "counter", "x"), [((), 7)]))
    )
    assert found.type == "counter"
    assert [(one.name, one.value) for one in found.samples] == [("seen_total", 7)]


def test_a_label_without_a_value_is_left_out() -> None:
    text = "".join(pieces(Family("bytes", "gauge", "x", ("topic",)), [(("",), 3), (("orders",), 1)]))
    assert text.splitlines()[2:] == ["bytes 3", 'bytes{topic="orders"} 1']


def test_a_family_of_many_samples_is_made_a_few_at_a_time() -> None:
    made = 0

    def samples() -> "object":
        nonlocal made
        for at in range(3 * LINES_AT_ONCE):
            made += 1
            yield (at,), at

    text = pieces(Family("bytes", "gauge", "x", ("partition",)), samples())  # type: ignore[arg-type]
    next(text)
    counts = []
    for piece in text:
        assert piece.count("\n") == LINES_AT_ONCE
        counts.append(made)
    assert counts == [LINES_AT_ONCE, 2 * LINES_AT_ONCE, 3 * LINES_AT_ONCE]


def test_a_family_of_long_names_is_made_fewer_at_a_time() -> None:
    """A group's name is as long as whoever commits likes: 500 lines of such were half a second."""
    longest = "g" * 32_767
    family = Family("kafka_consumergroup_members", "gauge", "x", ("consumergroup",))
    text = list(pieces(family, [((longest,), at) for at in range(20)]))
    assert max(map(len, text)) < CHARACTERS_AT_ONCE + 2 * len(longest)
    assert "".join(text).count("\n") == 22
