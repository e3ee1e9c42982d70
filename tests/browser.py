"""Pages as Debian's chromium shows them, driven by playwright's client; nothing is downloaded. Where one of them is missing
`needs_chromium` and `running_browser` skip the tests.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="needs a chromium on the PATH, as of Debian's package of that name"
)
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


def weak(texts: list[dict[str, Any]]) -> set[tuple[str, float]]:
    """Those that do not stand out from what they lie on, and their contrast."""
    return {(t["words"], round(contrast(t), 2)) for t in texts if contrast(t) < LEAST_CONTRAST}


def small(texts: list[dict[str, Any]]) -> set[tuple[str, str, float]]:
    """Those whose letters are too small to be read: plot, words, height in pixels."""
    return {(t["plot"], t["words"], t["letter"]) for t in texts if t["letter"] < LEAST_LETTER_PX}


def covered(labels: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Pairs of which one lies over the other: plot, words, words."""
    return [
        (a["plot"], a["words"], b["words"])
        for number, a in enumerate(labels)
        for b in labels[number + 1 :]
        if overlap(a, b)
    ]


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


@contextmanager
def running_browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS), timeout=120_000)
        yield running
        running.close()
