"""The report: one file that loads nothing, well formed, and honest when something did not hold."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

from odradek.demo import plots
from odradek.demo.page import page
from odradek.demo.proof import Census, Proof
from odradek.demo.report import as_dict, text_report, verdict_lines
from odradek.demo.result import Aggregate, DemoResult, Group
from odradek.demo.story import ControllerElected, LeaderElected, Story
from odradek.demo.timeline import Timeline


def a_result(lost: int = 0) -> DemoResult:
    timeline = Timeline(1_000_000.0)
    for ms in range(0, 4000, 2):
        if not 2000 <= ms < 2140:
            timeline.acknowledged(timeline.begun_ms + ms, ms // 2 % 6)
    timeline.mark(1_002_000, "kill", "kill -9 of broker 1")
    timeline.mark(1_002_012, "controller", "broker 2 elected controller")
    timeline.mark(1_002_031, "leader", "new leaders")
    timeline.mark(1_003_000, "restart", "broker 1 started again")
    timeline.mark(1_003_400, "isr-full", "every ISR full again")
    whole, short = Census(1000, "0a" * 16, None), Census(1000 - lost, "0b" * 16, None)
    return DemoResult(
        "flights",
        ["a<b>.csv"],
        6,
        3,
        3,
        records=1000,
        killed=1,
        controller_before=1,
        timeline=timeline,
        first_leaders={p: p % 3 + 1 for p in range(6)},
        story=Story(
            (ControllerElected(1_002_012, 2, 2),),
            (LeaderElected(1_002_031, "flights-0", 1, 2, 1, (1, 2, 3), (2, 3), "broker 1 <failed>", 2),),
        ),
        driver_killed_at="kill -9 in batch 2",
        batches=6,
        aggregate=Aggregate(
            "carrier",
            "hour",
            "departure delay in minutes",
            (Group("UA", "5", 60, 50, 250.0), Group("UA", "6", 40, 30, -30.0), Group("AA", "5", 30, 0, 0.0)),
        ),
        proof=Proof(whole, whole, short if lost else whole, 0, 0, lost, 0),
        seconds=90,
    )


def test_the_page_is_one_file_that_loads_nothing():
    html = page(a_result())
    assert not re.search(r"""(src|href)\s*=|url\(|@import|<script|<link""", html)
    assert "a&lt;b&gt;.csv" in html and "a<b>" not in html
    assert "broker 1 &lt;failed&gt;" in html
    for drawing in re.findall(r"<svg.*?</svg>", html, re.S):
        ElementTree.fromstring(drawing)
    assert html.count("<svg") == 5


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


def test_groups_fold_by_row_and_by_column():
    aggregate = a_result().aggregate
    by_row = {group.row: (group.records, group.measured, group.total) for group in aggregate.by_row()}
    assert by_row == {"UA": (100, 80, 220.0), "AA": (30, 0, 0.0)}
    by_column = {group.row: group.records for group in aggregate.by_column()}
    assert by_column == {"5": 90, "6": 40}


def test_ticks_are_round_and_inside():
    assert plots.nice_ticks(0, 10, 5) == [0, 2, 4, 6, 8, 10]
    assert plots.nice_ticks(7.8, 9.9, 10)[0] == 8
    assert all(0 <= tick <= 0.37 for tick in plots.nice_ticks(0, 0.37))
    assert plots.nice_ticks(3, 3) == [3]


def test_neighbouring_slots_of_one_leader_join():
    slots = [(0.0, 1), (0.02, 1), (0.04, 2), (0.5, 2)]
    assert plots.stretches(slots, 0.02) == [(0.0, 0.04, 1), (0.04, 0.06, 2), (0.5, 0.52, 2)]
