"""The report: one file that loads nothing, well formed, and honest when something did not hold."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from odradek.demo.page import page
from odradek.demo.report import as_dict, text_report, verdict_lines
from odradek.demo.result import Aggregate, DemoResult, Group
from odradek.pictures import plots
from odradek.pictures.colours import readable_on
from odradek.pictures.figures import number, rounded
from odradek.pictures.scales import nice_ticks
from tests.demo.results import a_result, flights_of_a_year
from tests.pictures.shapes import drawn, tips


def test_the_page_is_one_file_that_loads_nothing():
    html = page(a_result())
    assert not re.search(r"""(src|href)\s*=|url\(|@import|<script|<link""", html)
    assert "a&lt;b&gt;.csv" in html and "a<b>" not in html
    assert "broker 1 &lt;failed&gt;" in html
    for drawing in re.findall(r"<svg.*?</svg>", html, re.S):
        ElementTree.fromstring(drawing)
    assert html.count("<svg") == 2 * 5, "each for a page on a desk and for a telephone"


def test_every_tag_of_the_page_is_closed():
    class Tags(HTMLParser):
        open_tags: list[str] = []

        def handle_starttag(self, tag, attrs):
            if tag not in ("meta", "br"):
                self.open_tags.append(tag)

        def handle_endtag(self, tag):
            assert self.open_tags.pop() == tag

        def handle_startendtag(self, tag, attrs):
            pass

    tags = Tags()
    tags.open_tags = []
    tags.feed(page(a_result()))
    assert tags.open_tags == []


def test_numbers_stand_in_page_text_and_json():
    result = a_result()
    assert result.ok
    text = text_report(result)
    for said in ("142 ms", "12 ms", "31 ms", "0.4 s", "controller 1 -> 2 (epoch 2)", "broker 1 <failed>"):
        assert said in text, said
    assert "UA     2.8  (100 records)" in text
    data = as_dict(result)
    assert (data["ok"], data["lost"], data["longest_gap_ms"]) == (True, 0, 142.0)
    assert data["controller"] == {"before": 1, "after": 2, "epoch": 2}
    assert data["moments"][0]["name"] == "kill"
    assert "a group of 2 read them all meanwhile" in text
    assert "the group's coordinator, was killed" in text and "421 ms" in text
    assert (data["group"]["again"], data["group"]["coordinator_after"]) == (3, 2)
    assert "its coordinator was broker 1 before and broker 2 after" in page(result)


def test_a_loss_is_the_first_thing_said():
    result = a_result(lost=3)
    assert not result.ok
    assert verdict_lines(result) == ["files 1,000, topic 1,000, table 997: 3 lost, 0 doubled"]
    assert "NOT equal" in page(result) and 'class="verdict bad"' in page(result)
    assert as_dict(result)["problems"] == verdict_lines(result)


def test_a_problem_on_the_way_is_not_ok_even_when_all_is_equal():
    result = a_result()
    result.problems.append("the ISRs were not full within 60 s of the restart")
    assert not result.ok
    assert verdict_lines(result)[0].startswith("the ISRs were not full")


def test_a_demo_without_an_end_has_a_page_all_the_same():
    result = DemoResult("t", ["x"], 6, 3, 3)
    assert "did not come to its end" in page(result)
    assert not result.ok


def test_delays_are_means_of_what_was_measured_the_longest_first():
    result = a_result()
    groups = (
        Group("ZZ", "5", 60, 50, 250.0),
        Group("ZZ", "16", 40, 30, -30.0),
        Group("AA", "5", 30, 0, 0.0),  # cancelled, all of them
        Group("XX", "16", 25, 20, 100.0),
        Group("YY", "7", 19, 19, 1900.0),
    )
    result.aggregate = Aggregate("carrier", "hour", "departure delay in minutes", groups)
    wide = re.findall(r'<svg[^>]*class="wide".*?</svg>', page(result), re.S)
    carriers, hours, field = wide[-3:]

    names = [name for (name,) in drawn(carriers, "text", class_="name")]
    told = [words for (words,) in drawn(carriers, "text", text_anchor="end", class_="tick")]
    assert list(zip(names, told, strict=True)) == [
        ("YY", "100.0 min, 19 flights"),
        ("XX", "5.0 min, 25 flights"),
        ("ZZ", "2.8 min, 100 flights"),
    ]
    assert drawn(hours, "text", text_anchor="middle") == [("05h",), ("07h",), ("16h",)]
    assert drawn(field, "text", class_="name") == [("YY",), ("XX",), ("ZZ",)]
    assert tips(field) == [
        "XX, 16h: 5.0 min",
        "ZZ, 05h: 5.0 min",
        "ZZ, 16h: -1.0 min",
    ]  # of twenty at least


def test_an_hour_that_is_no_number_stands_behind_those_that_are():
    result = a_result()
    hours = ("None", "10", "9", "08:30")
    groups = tuple(Group("UA", hour, 30, 30, 60.0) for hour in hours)
    result.aggregate = Aggregate("carrier", "hour", "departure delay in minutes", groups)
    by_hour = re.findall(r'<svg[^>]*class="wide".*?</svg>', page(result), re.S)[-2]

    told = [words for (words,) in drawn(by_hour, "text", text_anchor="middle", class_="tick")]
    assert told[-4:] == ["09h", "10h", "08:30", "None"]


def test_groups_fold_by_row_and_by_column():
    aggregate = a_result().aggregate
    by_row = {group.row: (group.records, group.measured, group.total) for group in aggregate.by_row()}
    assert by_row == {"UA": (100, 80, 220.0), "AA": (30, 0, 0.0)}
    by_column = {group.row: group.records for group in aggregate.by_column()}
    assert by_column == {"5": 90, "6": 40}


def test_ticks_are_round_and_inside():
    assert nice_ticks(0, 10, 5) == [0, 2, 4, 6, 8, 10]
    assert nice_ticks(7.8, 9.9, 10)[0] == 8
    assert all(0 <= tick <= 0.37 for tick in nice_ticks(0, 0.37))
    assert nice_ticks(3, 3) == [3]


def test_neighbouring_slots_of_one_leader_join():
    slots = [(0.0, 1), (0.02, 1), (0.04, 2), (0.5, 2)]
    assert plots.stretches(slots, 0.02) == [(0.0, 0.04, 1), (0.04, 0.06, 2), (0.5, 0.52, 2)]


@pytest.mark.parametrize(
    ("value", "digits", "signed", "text"),
    [
        (-0.3, 0, False, "0"),
        (-0.04, 1, False, "0.0"),
        (-0.0, 0, True, "+0"),
        (-0.6, 0, True, "-1"),
        (-3.2, 1, False, "-3.2"),
        (12.0, 0, True, "+12"),
    ],
)
def test_a_nought_has_no_minus(value, digits, signed, text):
    assert rounded(value, digits, signed=signed) == text


def test_no_number_of_the_page_is_minus_nought():
    assert number(-0.0) == "0"
    words = re.sub(r"<(style|svg [^>]*|[^>]*)>", " ", page(flights_of_a_year()))
    assert not re.search(r"(?<![\w.])-0(\.0+)?(?![\d.])", words)


@pytest.mark.parametrize("ground", ["#f7f5f0", "#f4a560", "#a51c24", "#2166ac", "#777777", "#d16c3f"])
def test_what_is_written_on_a_colour_can_be_read(ground):
    def luminance(colour):
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(ground), luminance(readable_on(ground))), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5
