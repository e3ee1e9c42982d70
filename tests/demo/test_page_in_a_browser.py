"""The demo's page as a browser shows it: what a reader of either theme, at a desk or on a telephone, can read."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.demo.page import page
from tests.browser import (
    DESK,
    LINES,
    PLOTS,
    TELEPHONE,
    TEXTS,
    covered,
    crosses,
    needs_chromium,
    running_browser,
    small,
    weak,
)
from tests.demo.results import a_result, flights_of_a_year

pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
pytestmark = [needs_chromium, pytest.mark.process]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_browser() as running:
        yield running


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(page(flights_of_a_year()), encoding="utf-8")
    return file


@pytest.fixture(
    scope="module",  # a page is opened once, and only looked at
    params=[(w, t) for w in (DESK, TELEPHONE) for t in ("light", "dark")],
    ids=lambda p: f"{p[0]}-{p[1]}",
)
def shown(request: pytest.FixtureRequest, browser: Any, report: Path) -> Iterator[Any]:
    width, theme = request.param
    with browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme) as opened:
        opened.goto(report.as_uri())
        yield opened


def test_every_text_stands_out_from_what_it_lies_on(shown: Any) -> None:
    texts = shown.evaluate(TEXTS)
    assert len(texts) > 100
    assert not weak(texts)


def test_labels_are_large_enough_to_be_read(shown: Any) -> None:
    assert not small(shown.evaluate(TEXTS))


def test_no_line_runs_through_a_label(shown: Any) -> None:
    labels = [t for t in shown.evaluate(TEXTS) if t["plot"]]
    lines = shown.evaluate(LINES)
    assert len(labels) > 80 and len(lines) > 30
    crossed = [
        (line["name"], label["plot"], label["words"])
        for label in labels
        for line in lines
        if line["plot"] == label["plot"] and crosses(line, label)
    ]
    assert not crossed


def test_no_label_covers_another_or_leaves_its_plot(shown: Any) -> None:
    labels = [t for t in shown.evaluate(TEXTS) if t["plot"]]
    assert not covered(labels)
    boxes = {plot["label"]: plot for plot in shown.evaluate(PLOTS)}
    outside = [
        (t["plot"], t["words"])
        for t in labels
        if t["left"] < boxes[t["plot"]]["left"] - 1 or t["right"] > boxes[t["plot"]]["right"] + 1
    ]
    assert not outside


def test_each_plot_is_shown_once_and_nothing_is_wider_than_the_window(shown: Any) -> None:
    plots = [plot["label"] for plot in shown.evaluate(PLOTS)]
    assert len(plots) == len(set(plots)) == 5
    assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_no_nought_has_a_minus(shown: Any) -> None:
    assert not [
        t["words"]
        for t in shown.evaluate(TEXTS)
        if re.search(r"(?<![\w.])[-\u2212]0(\.0+)?(?![\d.])", t["words"])
    ]


def test_the_page_asks_nobody_for_anything(browser: Any, report: Path) -> None:
    asked: list[str] = []
    with browser.new_page() as opened:
        opened.on("request", lambda request: asked.append(request.url))
        opened.goto(report.as_uri())
        opened.wait_for_load_state("networkidle")
    assert asked == [report.as_uri()]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_failure_can_be_read_too(browser: Any, tmp_path: Path, theme: Any) -> None:
    file = tmp_path / "report.html"
    file.write_text(page(a_result(lost=3)), encoding="utf-8")
    with browser.new_page(viewport={"width": TELEPHONE, "height": 900}, color_scheme=theme) as opened:
        opened.goto(file.as_uri())
        texts = opened.evaluate(TEXTS)
    assert any("3 lost" in t["words"] for t in texts)
    assert not weak(texts)
