"""The pages of `journal show`, `reassign status` and `sim` as a browser shows them, in both themes, wide and narrow."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.advisor.reassignment_steps import STEPS, Reassigned, StepTaken
from odradek.cli.reassign.rows import Row
from odradek.model.ids import TopicPartition
from odradek.pictures.steps import status_page
from odradek.pictures.timeline import timeline_page, timeline_svg
from odradek.sim.plan import draw
from odradek.sim.run import OK
from odradek.sim.run import run as run_plan
from odradek.sim.timeline import page as run_page
from odradek.sim.trace import Recorder
from tests.browser import (
    DESK,
    PLOTS,
    TELEPHONE,
    TEXTS,
    covered,
    needs_chromium,
    running_browser,
    small,
    weak,
)
from tests.pictures.test_pictures import DARK, MOMENTS, ids

pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
pytestmark = [needs_chromium, pytest.mark.process]

# As long as names of topics and sentences get in the field.
WHERE = TopicPartition("customer-orders-of-the-last-year-events-v2", 11)
SENTENCE = (
    "waits until brokers 3, 4 have caught up: broker 3 is 1,234,567 records behind and has not fetched for 12 s; "
    "broker 4 is 765,432 records behind; the throttle of 50 MB a second lets them finish in 41 minutes"
)


def a_time_line() -> str:
    steps = tuple(
        StepTaken(number, what, 2000 + 7 * number if number < 9 else None, "4,3,1,2")
        for number, what in enumerate(STEPS, start=1)
    )
    move = Reassigned(WHERE, ids(1, 2), ids(3, 4), 2000, None, steps, MOMENTS)
    picture = timeline_svg(WHERE, MOMENTS, DARK, (move,), 10_000)
    return timeline_page(WHERE, picture, MOMENTS, DARK, (move,))


def the_steps() -> str:
    return status_page(
        [
            Row(WHERE, (2, 1), (2,), (2,), (1,), 1, (1,), 4, SENTENCE),
            Row(WHERE, (2,), (2,), (), (), 2, (2,), 0, "done"),
        ]
    )


def a_run() -> str:
    recorders: list[Recorder] = []
    plan = draw(3)
    outcome = run_plan(plan, prepare=lambda world, history: recorders.append(Recorder(world, history)))
    assert outcome.code == OK, outcome.reason
    return run_page(plan, outcome, recorders[0].actions)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("pages")
    made = {"time-line": a_time_line(), "steps": the_steps(), "run": a_run()}
    for name, text in made.items():
        (directory / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: directory / f"{name}.html" for name in made}


@pytest.fixture(scope="module")
def browser(pages: dict[str, Path]) -> Iterator[Any]:
    """After the pages: no simulated loop runs in a thread that has another one."""
    with running_browser() as running:
        yield running


@pytest.fixture(
    scope="module",  # a page is opened once, and only looked at
    params=[
        (name, width, theme)
        for name in ("time-line", "steps", "run")
        for width in (DESK, TELEPHONE)
        for theme in ("light", "dark")
    ],
    ids=lambda p: f"{p[0]}-{p[1]}-{p[2]}",
)
def shown(request: pytest.FixtureRequest, browser: Any, pages: dict[str, Path]) -> Iterator[Any]:
    name, width, theme = request.param
    with browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme) as opened:
        opened.goto(pages[name].as_uri())
        yield opened


def test_a_page_can_be_read(shown: Any) -> None:
    texts = shown.evaluate(TEXTS)
    assert len(texts) > 20
    # A picture lies on paper of its own, whatever the theme; what lies on a bar of it is the picture's own matter.
    outside = [text for text in texts if not text["plot"]]
    assert not weak(outside)
    assert not small(texts)


def test_only_pictures_and_tables_are_wider_than_the_window(shown: Any) -> None:
    assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    boxes = shown.evaluate("[...document.querySelectorAll('svg, table')].map(e => e.parentElement.className)")
    assert boxes and set(boxes) == {"scrolls"}


def test_no_text_of_a_picture_leaves_it(shown: Any) -> None:
    boxes = {plot["label"]: plot for plot in shown.evaluate(PLOTS)}
    assert boxes and all(boxes)
    assert not [
        (t["plot"], t["words"])
        for t in shown.evaluate(TEXTS)
        if t["plot"] and (t["left"] < boxes[t["plot"]]["left"] or t["right"] > boxes[t["plot"]]["right"])
    ]


def test_no_text_covers_another(shown: Any) -> None:
    if "Seed" in shown.title():
        return  # faults that begin together are written over each other's bars on purpose
    assert not covered([t for t in shown.evaluate(TEXTS) if t["plot"]])
