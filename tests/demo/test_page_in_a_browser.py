"""The demo's page as a browser shows it: what a reader of either theme, at a desk or on a telephone, can read.

Debian's chromium, driven by playwright's client; nothing is downloaded. Where one of them is missing the tests are
skipped.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.demo.page import page
from tests.demo.results import a_result, flights_of_a_year

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.skipif(
        CHROMIUM is None, reason="needs a chromium on the PATH, as of Debian's package of that name"
    ),
    pytest.mark.process,
]
ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
DESK, TELEPHONE = 1280, 480
LEAST_CONTRAST = 4.5  # WCAG 2.1, 1.4.3
LEAST_LETTER_PX = 10

# Every text that is shown: its words, box, colour, the colour it lies on, and how high its letters are.
TEXTS = """() => {
    const shown = e => { const b = e.getBoundingClientRect(); return b.width > 0 && b.height > 0; };
    const colour = text => text.match(/[\\d.]+/g).map(Number);
    const ground = e => {
        for (; e; e = e.parentElement) {
            const found = colour(getComputedStyle(e).backgroundColor);
            if (found.length < 4 || found[3] > 0) return found;
        }
        return [255, 255, 255];
    };
    const hex = t => [1, 3, 5].map(i => parseInt(t.slice(i, i + 2), 16));
    const own = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    return [...document.querySelectorAll("main *")].filter(e => own(e) && shown(e) && e.tagName !== "title").map(e => {
        const box = e.getBoundingClientRect(), style = getComputedStyle(e);
        const svg = e.closest("svg");
        const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
        return {
            words: e.textContent.trim().slice(0, 60), plot: svg && svg.getAttribute("aria-label"),
            left: box.left, right: box.right, top: box.top, bottom: box.bottom,
            letter: parseFloat(style.fontSize) * scale,
            colour: colour(svg ? style.fill : style.color),
            ground: e.dataset.on ? hex(e.dataset.on) : ground(e),
        };
    });
}"""
# Every line of a plot that is shown, and the plot's own box.
LINES = """() => [...document.querySelectorAll("svg line")].map(e => {
    const box = e.getBoundingClientRect();
    return {plot: e.closest("svg").getAttribute("aria-label"), name: e.getAttribute("class"),
            left: box.left, right: box.right, top: box.top, bottom: box.bottom};
}).filter(box => box.right > box.left || box.bottom > box.top)"""
PLOTS = """() => [...document.querySelectorAll("svg")].map(e => {
    const box = e.getBoundingClientRect();
    return {label: e.getAttribute("aria-label"), left: box.left, right: box.right, top: box.top, bottom: box.bottom};
}).filter(box => box.right > box.left)"""


def luminance(colour: list[float]) -> float:
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (channel / 255 for channel in colour[:3])
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(text: dict[str, Any]) -> float:
    dark, light = sorted((luminance(text["colour"]), luminance(text["ground"])))
    return (light + 0.05) / (dark + 0.05)


def overlap(a: dict[str, Any], b: dict[str, Any], slack_px: float = 1.0) -> bool:
    return (
        a["left"] + slack_px < b["right"]
        and b["left"] + slack_px < a["right"]
        and a["top"] + slack_px < b["bottom"]
        and b["top"] + slack_px < a["bottom"]
    )


def crosses(line: dict[str, Any], text: dict[str, Any], slack_px: float = 1.5) -> bool:
    """A line has no width or no height of its own."""
    return (
        line["left"] < text["right"] - slack_px
        and text["left"] + slack_px < line["right"] + 0.01
        and line["top"] < text["bottom"] - slack_px
        and text["top"] + slack_px < line["bottom"] + 0.01
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS), timeout=120_000)
        yield running
        running.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(page(flights_of_a_year()), encoding="utf-8")
    return file


@pytest.fixture(
    params=[(w, t) for w in (DESK, TELEPHONE) for t in ("light", "dark")], ids=lambda p: f"{p[0]}-{p[1]}"
)
def shown(request: pytest.FixtureRequest, browser: Any, report: Path) -> Iterator[Any]:
    width, theme = request.param
    with browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme) as opened:
        opened.goto(report.as_uri())
        yield opened


def test_every_text_stands_out_from_what_it_lies_on(shown: Any) -> None:
    texts = shown.evaluate(TEXTS)
    assert len(texts) > 100
    weak = {(t["words"], round(contrast(t), 2)) for t in texts if contrast(t) < LEAST_CONTRAST}
    assert not weak


def test_labels_are_large_enough_to_be_read(shown: Any) -> None:
    small = {
        (t["plot"], t["words"], t["letter"]) for t in shown.evaluate(TEXTS) if t["letter"] < LEAST_LETTER_PX
    }
    assert not small


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
    covered = [
        (a["plot"], a["words"], b["words"])
        for number, a in enumerate(labels)
        for b in labels[number + 1 :]
        if overlap(a, b)
    ]
    assert not covered
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
    assert not [t["words"] for t in texts if contrast(t) < LEAST_CONTRAST]
