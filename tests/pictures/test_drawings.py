"""Time lines, steps, tables and pages, to the pixel and the letter."""

import re

import pytest

from odradek.advisor.reassignment_steps import Reassigned, StepTaken
from odradek.advisor.timeline import Outage
from odradek.cli.reassign.rows import Row
from odradek.pictures import colours
from odradek.pictures.colours import AWAY, BEHIND, IN_SYNC, INK, LEADS, MOVES, NOBODY_LEADS, PALE, PAPER
from odradek.pictures.document import heading, page, paragraph, scrolling, table
from odradek.pictures.drawing import Drawing
from odradek.pictures.figures import clock, number, shown_seconds
from odradek.pictures.markup import escaped, pixels
from odradek.pictures.scales import nice_ticks
from odradek.pictures.steps import draw_moved, status_page, status_svg, steps_table
from odradek.pictures.timeline import timeline_page, timeline_svg
from tests.pictures.shapes import BOX, ENDS, drawn, tips
from tests.pictures.test_pictures import WHERE, ids, moment

DONE, NOW, TO_COME = (colours.STEPS[state][0] for state in ("done", "now", "to come"))


def moved(*at_ms: int | None, ended_ms: int | None = None) -> Reassigned:
    steps = tuple(StepTaken(n, f"step {n}", at, f"detail {n}") for n, at in enumerate(at_ms, start=1))
    moments = (moment(1000, 1, (1, 2), (1, 2)), moment(2000, -1, (1,), (2,)))
    return Reassigned(WHERE, ids(1, 2), ids(3, 4), 1000, ended_ms, steps, moments)


def test_a_drawing_is_as_high_as_what_is_on_it() -> None:
    drawing = Drawing(100, "a < b")

    def size() -> str:
        ((box, width, height),) = drawn(drawing.svg(), "svg", "viewBox", "width", "height")
        assert box == f"0 0 100 {height:.0f}" and width == 100
        ((ground_width, ground_height),) = drawn(drawing.svg(), "rect", "width", "height", fill=PAPER)
        assert (ground_width, ground_height) == (width, height)
        return f"{height:.0f}"

    assert size() == "10"
    drawing.text(1, 20, "words")
    assert size() == "36"
    drawing.line(0, 50, 9, 3)
    assert size() == "61"
    drawing.line(0, 3, 9, 70)
    assert size() == "81"
    drawing.rectangle(1, 2, 3, 90.5, "#123456", "tip", rx=4)
    assert size() == "103"
    drawing.text(1, 20, "more", 15, "#654321", text_anchor="end")
    assert size() == "103"
    svg = drawing.svg()
    assert drawn(svg, "text", "x", "y", "font_size", "fill", "text_anchor") == [
        ("words", 1, 20, 12, INK, None),
        ("more", 1, 20, 15, "#654321", "end"),
    ]
    assert drawn(svg, "line", *ENDS, "stroke") == [(0, 50, 9, 3, PALE), (0, 3, 9, 70, PALE)]
    assert drawn(svg, "rect", *BOX, "rx", fill="#123456") == [(1, 2, 3, 90.5, 4)]
    assert tips(svg) == ["tip"]
    assert "<title>a &lt; b</title>" in svg
    assert drawn(svg, "svg", "role", "aria_label") == [("img", "a < b")]


MOMENTS = (
    moment(1000, 1, (1, 2), (1, 2), "created"),
    moment(2000, -1, (1,), (2,), "1 failed"),
    moment(9000, 1, (1,), (1, 2), "1 is back"),
)
DARK = (Outage(2000, 9000, "1 failed"), Outage(9500, None, "again"), Outage(4000, 4001, "short"))


def test_a_time_line_shows_what_each_broker_was_from_when_to_when() -> None:
    svg = timeline_svg(WHERE, MOMENTS, DARK, (moved(1000), moved(1000, ended_ms=1900)), 10_000)

    assert drawn(svg, "svg", "viewBox") == [("0 0 960 168",)]
    assert drawn(svg, "text", "x", "y", font_size="15") == [
        ("t<&>-0 from 1970-01-01 00:00:01.000 to 1970-01-01 00:00:10.000 UTC", 10, 22)
    ]
    # 850 px for nine seconds.
    first, second = (90, 94.4), (845.6, 94.4)
    assert drawn(svg, "rect", *BOX, fill=LEADS)[1:] == [
        (first[0], 74, first[1], 20),
        (second[0], 74, second[1], 20),
    ]
    assert drawn(svg, "rect", *BOX, fill=AWAY)[1:] == [(184.4, 74, 661.1, 20)]
    assert drawn(svg, "rect", *BOX, fill=IN_SYNC)[1:] == [(first[0], 104, first[1], 20)]
    assert drawn(svg, "rect", *BOX, fill=BEHIND)[1:] == [
        (184.4, 104, 661.1, 20),
        (second[0], 104, second[1], 20),
    ]
    assert drawn(svg, "rect", *BOX, "fill_opacity", fill=NOBODY_LEADS)[1:] == [
        (184.4, 70, 661.1, 60, 0.35),
        (892.8, 70, 47.2, 60, 0.35),
        (373.3, 70, 1.5, 60, 0.35),  # a millisecond is seen as well
    ]
    assert drawn(svg, "rect", *BOX, fill=MOVES)[1:] == [(90, 58, 850, 8), (90, 58, 85, 8)]
    assert tips(svg) == [
        "1970-01-01 00:00:01.000 broker 1 leads, epoch 3: created",
        "1970-01-01 00:00:02.000 broker 1 is not alive, epoch 3: 1 failed",
        "1970-01-01 00:00:09.000 broker 1 leads, epoch 3: 1 is back",
        "1970-01-01 00:00:01.000 broker 2 is in the ISR, epoch 3: created",
        "1970-01-01 00:00:02.000 broker 2 is behind, epoch 3: 1 failed",
        "1970-01-01 00:00:09.000 broker 2 is behind, epoch 3: 1 is back",
        "offline from 1970-01-01 00:00:02.000: 1 failed",
        "offline from 1970-01-01 00:00:09.500: again",
        "offline from 1970-01-01 00:00:04.000: short",
        "reassignment [1, 2] to [3, 4]",
        "reassignment [1, 2] to [3, 4]",
    ]


def test_a_time_line_has_a_legend_names_and_an_axis() -> None:
    svg = timeline_svg(WHERE, MOMENTS, (), (), 10_000)

    legend = ((10, LEADS), (140, IN_SYNC), (270, BEHIND), (400, AWAY), (530, NOBODY_LEADS), (660, MOVES))
    assert drawn(svg, "rect", "x", "y", "width", "height", "fill", "stroke_width", stroke=INK) == [
        (x, 34, 12, 12, colour, 0.5) for x, colour in legend
    ]
    assert drawn(svg, "text", "x", "y", font_size="12") == [
        ("leads", 28, 44),
        ("in the ISR", 158, 44),
        ("behind", 288, 44),
        ("not alive", 418, 44),
        ("no leader", 548, 44),
        ("reassignment", 678, 44),
        ("broker 1", 10, 88),
        ("broker 2", 10, 118),
    ]
    assert drawn(svg, "line", *ENDS, stroke=PALE) == [(90, 98, 940, 98), (90, 128, 940, 128)]
    times = ((90, "01.000", "start"), (302.5, "03.250", "middle"), (515, "05.500", "middle"), (727.5, "07.750", "middle"), (940, "10.000", "end"))  # fmt: skip
    assert drawn(svg, "text", "x", "y", "text_anchor", font_size="11") == [
        (f"00:00:{words}", x, 152, anchor) for x, words, anchor in times
    ]
    assert drawn(svg, "line", *ENDS, stroke=INK) == [
        (90, 134, 940, 134),
        *((x, 134, x, 139) for x, _, _ in times),
    ]


def test_a_time_line_does_not_end_before_its_last_change() -> None:
    svg = timeline_svg(WHERE, MOMENTS[:1], (), (), 0)
    assert drawn(svg, "rect", *BOX, fill=LEADS)[1:] == [(90, 74, 850, 20)]
    assert "from 1970-01-01 00:00:01.000 to 1970-01-01 00:00:01.001 UTC" in svg


def test_a_broker_has_no_box_while_it_has_no_replica() -> None:
    """It is in the ISR of a later moment, and not assigned before: alive or not, it was nothing."""
    for live in ((1,), (1, 2, 3)):
        moments = (moment(1000, 1, (1, 2), live), moment(2000, 1, (1, 3), (1, 2, 3)))
        svg = timeline_svg(WHERE, moments, (), (), 3000)
        third = [shape for shape in drawn(svg, "rect", "x", "y", "width", "fill") if shape[1] == 134]
        assert third == [(515, 134, 425, IN_SYNC)]


def test_a_leader_that_is_not_alive_does_not_lead() -> None:
    """Until another one is elected it is written still as who leads."""
    moments = (moment(1000, 1, (1, 2), (1, 2)), moment(2000, 1, (1, 2), (2,)))
    svg = timeline_svg(WHERE, moments, (), (), 3000)
    first = [drawn(svg, "rect", "x", "y", fill=fill)[1:] for fill in (LEADS, AWAY)]
    assert first == [[(90, 74)], [(515, 74)]]


def test_the_page_of_a_time_line_has_a_line_for_each_outage_move_and_change() -> None:
    html = timeline_page(WHERE, "<picture/>", MOMENTS, DARK[:2], (moved(1000, None),))

    assert re.findall(r"<p>(.*?)</p>", html) == [
        "Offline from 1970-01-01 00:00:02.000 for 7 s: 1 failed",
        "Offline from 1970-01-01 00:00:09.500 and still is: again",
    ]
    assert re.findall(r"<h\d>(.*?)</h\d>", html) == [
        "t&lt;&amp;&gt;-0: time line",
        "Reassignment [1, 2] to [3, 4]",
        "Every change",
    ]
    assert re.findall(r'aria-label="([^"]*)"><', html)[:2] == ["time line", "its steps"]
    assert ["1", "step 1", "1970-01-01 00:00:01.000", "detail 1"] in cells(html)
    assert cells(html)[-3:] == [
        ["1970-01-01 00:00:01.000", "0", "3", "1", "[1, 2]", "[1, 2]", "created"],
        ["1970-01-01 00:00:02.000", "0", "3", "none", "[1]", "[1, 2]", "1 failed"],
        ["1970-01-01 00:00:09.000", "0", "3", "1", "[1]", "[1, 2]", "1 is back"],
    ]


def cells(html: str) -> list[list[str]]:
    return [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr><td>.*?</tr>", html)]


def test_the_steps_of_a_journal_have_their_times_and_the_first_without_one_is_open() -> None:
    svg = draw_moved(moved(1001, 1250, None, None))

    assert drawn(svg, "text", "x", "y", font_size="13", fill=INK)[0] == ("t<&>-0: [1, 2] to [3, 4]", 10, 20)
    assert drawn(svg, "rect", *BOX, "fill", rx="4") == [
        (10, 34, 68, 34, DONE),
        (82, 34, 68, 34, DONE),
        (154, 34, 68, 34, NOW),
        (226, 34, 68, 34, TO_COME),
    ]
    assert tips(svg) == [
        "step 1, done: step 1 at 1970-01-01 00:00:01.001 detail 1",
        "step 2, done: step 2 at 1970-01-01 00:00:01.250 detail 2",
        "step 3, now: step 3",
        "step 4, to come: step 4",
    ]
    assert drawn(svg, "text", "x", "y", "font_size", text_anchor="middle") == [
        ("1", 44, 56, 13),
        ("+1 ms", 44, 83, 10),
        ("2", 116, 56, 13),
        ("+250 ms", 116, 83, 10),
        ("3", 188, 56, 13),
        ("4", 260, 56, 13),
    ]


def test_of_a_reassignment_that_has_ended_no_step_is_open() -> None:
    cancelled = draw_moved(moved(1001, None, None, ended_ms=2000))
    assert [fill for (fill,) in drawn(cancelled, "rect", "fill", rx="4")] == [DONE, TO_COME, TO_COME]
    done = draw_moved(moved(1001, 1002))
    assert [fill for (fill,) in drawn(done, "rect", "fill", rx="4")] == [DONE, DONE]


def test_the_table_beside_the_steps_has_what_stood_in_the_store() -> None:
    assert cells(steps_table(moved(1001, None))) == [
        ["1", "step 1", "1970-01-01 00:00:01.001", "detail 1"],
        ["2", "step 2", "&#160;", "detail 2"],
        ["1970-01-01 00:00:01.000", "[1, 2]", "1", "3", "[1, 2]"],
        ["1970-01-01 00:00:02.000", "[1, 2]", "none", "3", "[1]"],
    ]


def test_each_reassignment_of_a_cluster_has_a_strip_and_its_sentence_below() -> None:
    words = ("w" * 100, "v" * 39, "u")  # with their blanks 140 letters, and one more
    rows = [
        Row(WHERE, (2, 1), (2, 3), (2,), (1,), 1, (1,), 4, " ".join(words)),
        Row(WHERE, (2,), (2,), (), (), 2, (2,), 0, "done"),
    ]
    svg = status_svg(rows)

    assert drawn(svg, "svg", "viewBox", "aria_label") == [("0 0 960 227", "reassignments by step")]
    assert drawn(svg, "text", "x", "y", "font_size", text_anchor="middle") == [
        (str(n), 40 + 64 * (n - 1), y, 13) for y in (82, 184) for n in range(1, 13)
    ]
    assert [shape for shape in drawn(svg, "text", "x", "y", "font_size", "text_anchor") if shape[-1] is None] == [
        ("2 reassignments", 10, 22, 15, None),
        ("t<&>-0 to 2,3", 10, 52, 12, None),
        (" ".join(words[:2]), 10, 109, 11, None),
        ("u", 10, 124, 11, None),
        ("t<&>-0 to 2", 10, 154, 12, None),
        ("done", 10, 211, 11, None),
    ]  # fmt: skip
    assert drawn(svg, "rect", *BOX, rx="4") == [
        (10 + 64 * n, y, 60, 34) for y in (60, 162) for n in range(12)
    ]
    assert [fill for (fill,) in drawn(svg, "rect", "fill", rx="4")] == [
        *[DONE] * 3,
        NOW,
        *[TO_COME] * 8,
        *[DONE] * 12,
    ]
    html = status_page(rows)
    assert svg in html and html.count("<p>t&lt;&amp;&gt;-0: ") == 2
    assert 'aria-label="the steps of each reassignment"' in html


def test_a_table_scrolls_by_itself_and_an_empty_cell_keeps_its_height() -> None:
    assert table(("a", "", "b<"), [("x", "", None), (1, "<", 0)]) == (
        '<div class="scrolls" tabindex="0" role="region" aria-label="table: a, b&lt;"><table>'
        '<tr><th scope="col">a</th><th scope="col">&#160;</th><th scope="col">b&lt;</th></tr>\n'
        "<tr><td>x</td><td>&#160;</td><td>None</td></tr>\n"
        "<tr><td>1</td><td>&lt;</td><td>0</td></tr></table></div>"
    )
    assert scrolling("<svg/>", 'a "b"') == (
        '<div class="scrolls" tabindex="0" role="region" aria-label="a &quot;b&quot;"><svg/></div>'
    )


def test_a_page_has_its_title_twice_and_its_parts_below() -> None:
    html = page("a < b", [heading("c"), paragraph("d & e")], "p{color:red}")
    assert html.startswith('<!DOCTYPE html>\n<html lang="en" xmlns="http://www.w3.org/1999/xhtml"><head>')
    assert '<meta charset="utf-8"/>' in html and "<title>a &lt; b</title>" in html
    assert html.endswith(
        "p{color:red}</style></head>\n<body>\n<main><h1>a &lt; b</h1>\n<h2>c</h2>\n<p>d &amp; e</p></main>\n</body></html>\n"
    )


def test_what_xml_cannot_hold_is_replaced_and_nothing_else() -> None:
    kept = "\t\n\r \x7f\ud7ff\ue000\ufffd\U00010000\U0010ffff"
    assert escaped(kept) == kept
    assert escaped("\x08\x0b\x0c\x0e\x1f\ud800\udfff\ufffe\uffff") == "\ufffd" * 9


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (999.5, "999.5"), (1000, "1,000"), (-1000, "-1,000"), (-999, "-999"), (1234567, "1,234,567")],
)
def test_from_a_thousand_on_numbers_have_commas_and_no_fraction(value: float, text: str) -> None:
    assert number(value) == text


def test_seconds_are_shown_in_two_units_at_most() -> None:
    assert [shown_seconds(s) for s in (0.999, 1, 1.4, 59.6, 60, 3599, 3600, 3659, 7325)] == [
        *("less than a second", "1 s", "1 s", "1 min", "1 min", "59 min 59 s"),
        *("1 h", "1 h", "2 h 2 min"),
    ]


def test_a_time_is_utc_to_the_millisecond_and_a_pixel_to_a_tenth() -> None:
    assert clock(1_700_000_000_007) == "2023-11-14 22:13:20.007"
    assert [pixels(value) for value in (10, 10.04, 10.06, 100.0, 0.0)] == ["10", "10", "10.1", "100", "0"]


def test_ticks_go_as_far_as_the_axis_and_not_beyond() -> None:
    assert nice_ticks(0, 1, 4) == [0, 0.25, 0.5, 0.75, 1]
    assert nice_ticks(-1, 2.8) == [-1, 0, 1, 2]
    assert nice_ticks(0.1, 0.3, 4) == [0.1, 0.15, 0.2, 0.25, 0.3]
    assert nice_ticks(0, 7, 1) == nice_ticks(0, 7, 0) == [0]
    assert nice_ticks(0, 10, 1) == [0, 10]
    assert nice_ticks(5, 4) == [5]
