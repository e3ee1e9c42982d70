"""Pictures are well-formed whatever the texts in them hold; checked by parsing them."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from odradek.advisor.reassignment_steps import STEPS
from odradek.advisor.timeline import Moment, Outage
from odradek.cli.reassign.rows import Row
from odradek.model.ids import BrokerId, TopicPartition
from odradek.pictures import colours, markup
from odradek.pictures.colours import broker_colour, diverging, readable_on
from odradek.pictures.document import page, paragraph, table
from odradek.pictures.drawing import Drawing
from odradek.pictures.markup import escaped
from odradek.pictures.scales import Scale
from odradek.pictures.steps import status_svg
from odradek.pictures.timeline import timeline_page, timeline_svg
from tests.browser import LEAST_CONTRAST, contrast

NASTY = "<script>alert('x')</script> & \"quoted\" \x00\x1b ]]> \ud800"
WHERE = TopicPartition("t<&>", 0)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(b) for b in brokers)


def moment(at_ms: int, leader: int, isr: tuple[int, ...], live: tuple[int, ...], why: str = "") -> Moment:
    return Moment(at_ms, 0, 1, BrokerId(leader), 3, ids(*isr), ids(1, 2), (), (), ids(*live), why)


MOMENTS = (
    moment(1000, 1, (1, 2), (1, 2)),
    moment(2000, -1, (1,), (2,), NASTY),
    moment(9000, 1, (1,), (1, 2)),
)
DARK = (Outage(2000, 9000, NASTY), Outage(9500, None, "again"))


def test_texts_cannot_become_markup() -> None:
    assert escaped("<a & 'b'>") == "&lt;a &amp; &#39;b&#39;&gt;"
    text = escaped(NASTY)
    assert "<" not in text and "\x00" not in text and "\ufffd" in text
    drawing = Drawing(100, NASTY)
    drawing.text(1, 20, NASTY)
    drawing.rectangle(1, 1, 10, 10, "#fff", NASTY)
    parsed = ElementTree.fromstring(drawing.svg())
    assert {child.tag.rpartition("}")[2] for child in parsed.iter()} == {"svg", "title", "rect", "text"}
    whole = ElementTree.fromstring(page(NASTY, [paragraph(NASTY), table((NASTY,), [(NASTY,)])]))
    assert not [e for e in whole.iter() if e.tag.endswith("script")]


def test_a_time_line_has_a_lane_a_broker_and_red_where_nobody_leads() -> None:
    parsed = ElementTree.fromstring(timeline_svg(WHERE, MOMENTS, DARK, (), 10_000))
    boxes = [e for e in parsed.iter() if e.tag.endswith("rect")]
    red = [box for box in boxes if box.get("fill-opacity")]
    assert len(red) == 2
    # From second 1 to 10: the outage of 7 s takes 7/9 of the width.
    width = 960 - 90 - 20
    assert float(red[0].get("width", 0)) == pytest.approx(width * 7 / 9, abs=0.1)
    words = [e.text for e in parsed.iter() if e.tag.endswith("text")]
    assert "broker 1" in words and "broker 2" in words
    tips = [e.text or "" for e in parsed.iter() if e.tag.endswith("title")]
    assert any("broker 1 is not alive" in tip for tip in tips) and any(
        "broker 2 is in the ISR" in tip for tip in tips
    )


def test_the_page_of_a_time_line_parses_and_says_what_the_picture_shows() -> None:
    picture = timeline_svg(WHERE, MOMENTS, DARK, (), 10_000)
    words = "".join(ElementTree.fromstring(timeline_page(WHERE, picture, MOMENTS, DARK, ())).itertext())
    assert "for 7 s: <script>" in words and "and still is: again" in words


def test_a_single_moment_can_be_drawn() -> None:
    ElementTree.fromstring(timeline_svg(WHERE, MOMENTS[:1], (), (), 1000))


def test_the_page_about_explaining_lists_the_steps_as_they_are_called() -> None:
    page_ = (Path(__file__).parent.parent.parent / "docs" / "explain.md").read_text(encoding="utf-8")
    assert "\n".join(f"{number}. {what}" for number, what in enumerate(STEPS, start=1)) in page_


def test_the_steps_of_a_reassignment_are_twelve_boxes_of_three_kinds() -> None:
    rows = [
        Row(WHERE, (2, 1), (2,), (2,), (1,), 1, (1,), 4, NASTY),
        Row(WHERE, (2,), (2,), (), (), 2, (2,), 0, "done"),
        Row(WHERE, (1,), (2,), (), (), 1, (1,), 0, "does not run"),
    ]
    parsed = ElementTree.fromstring(status_svg(rows))
    tips = [e.text or "" for e in parsed.iter() if e.tag.endswith("title")]
    kinds = [tip.split(", ")[1].split(":")[0] for tip in tips if tip.startswith("step ")]
    assert kinds == ["done"] * 3 + ["now"] + ["to come"] * 8 + ["done"] * 12 + ["to come"] * 12


@pytest.mark.parametrize("state", colours.STEPS)
def test_the_number_of_a_step_stands_out_from_its_box(state: str) -> None:
    ground, ink = ([float(int(colour[i : i + 2], 16)) for i in (1, 3, 5)] for colour in colours.STEPS[state])
    assert contrast({"words": state, "ground": ground, "colour": ink}) >= LEAST_CONTRAST


def test_brokers_have_six_colours_in_turn() -> None:
    assert [broker_colour(broker) for broker in range(1, 7)] == list(colours.BROKERS)
    assert [broker_colour(broker) for broker in (7, 12, 13)] == [colours.BROKERS[n] for n in (0, 5, 0)]


@pytest.mark.parametrize(
    ("share", "colour"),
    [
        (-1.0, "#2166ac"),
        (-0.75, "#568abd"),
        (-0.5, "#8caece"),
        (0.0, "#f7f5f0"),
        (0.25, "#f6cda8"),
        (0.5, "#f4a560"),
        (0.75, "#cc6042"),
        (1.0, "#a51c24"),
        (1.1, "#a51c24"),
    ],
)
def test_what_is_below_nought_is_blue_and_what_is_above_orange_to_red(share: float, colour: str) -> None:
    assert diverging(share) == colour


def test_of_black_and_white_the_one_with_more_contrast_is_written() -> None:
    def contrast_of(ink: str, ground: str) -> float:
        inks = ([float(int(colour[i : i + 2], 16)) for i in (1, 3, 5)] for colour in (ink, ground))
        colour, behind = inks
        return contrast({"words": "", "ground": behind, "colour": colour})

    steps = range(0, 256, 15)
    grounds = [f"#{red:02x}{green:02x}{blue:02x}" for red in steps for green in steps for blue in steps]
    grounds += [f"#{grey:02x}{grey:02x}{grey:02x}" for grey in range(256)]
    for ground in grounds:
        other = {"#000000": "#ffffff", "#ffffff": "#000000"}[readable_on(ground)]
        assert contrast_of(readable_on(ground), ground) >= contrast_of(other, ground), ground


def test_a_scale_goes_either_way_and_may_begin_below_nought() -> None:
    right, up = Scale(10, 20, 100, 300), Scale(-1, 3, 200, 0)
    assert [right(value) for value in (10, 15, 20)] == [100, 200, 300]
    assert [up(value) for value in (-1, 0, 3)] == [200, 150, 0]


def test_elements_have_the_attributes_their_names_say() -> None:
    assert markup.line(1, 2.04, 3.25, 4, NASTY, class_="mark", stroke_width=2).startswith(
        '<line x1="1" y1="2" x2="3.2" y2="4" class="mark" stroke-width="2"><title>&lt;script&gt;'
    )
    assert markup.rectangle(0, 0, -1, 1) == '<rect x="0" y="0" width="0" height="1"/>'
    assert markup.text(0, 0, "") == '<text x="0" y="0"> </text>'
