"""Drawing: SVG elements as text, everything escaped, and a page around them. Nothing is loaded from anywhere.

Names of topics cannot hold markup, but reasons, paths and names of racks can hold anything; so no text gets into a
picture but through `escaped`.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

FONT = "ui-sans-serif, system-ui, sans-serif"
INK, PALE, PAPER = "#1f2933", "#e4e7eb", "#ffffff"


def escaped(text: object) -> str:
    """Fit for an attribute and for content; characters XML cannot hold become U+FFFD."""
    kept = "".join(c if _is_allowed(ord(c)) else "\ufffd" for c in str(text))
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        kept = kept.replace(character, entity)
    return kept


def _is_allowed(code: int) -> bool:
    """XML 1.0, production [2] Char."""
    return code in (0x9, 0xA, 0xD) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000


def element(name: str, attributes: Mapping[str, object], content: str = "") -> str:
    """`content` is markup already: text goes through `escaped` first. `_` in a name stands for `-`."""
    written = "".join(f' {key.replace("_", "-")}="{escaped(value)}"' for key, value in attributes.items())
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


class Drawing:
    """An SVG picture that grows downwards."""

    def __init__(self, width: int, title: str) -> None:
        self.width = width
        self.height = 0
        self.title = title
        self._parts: list[str] = []

    def rectangle(
        self, x: float, y: float, width: float, height: float, fill: str, tip: str = "", **more: object
    ) -> None:
        box = {"x": _number(x), "y": _number(y), "width": _number(width), "height": _number(height)}
        content = element("title", {}, escaped(tip)) if tip else ""
        self._parts.append(element("rect", {**box, "fill": fill, **more}, content))
        self.height = max(self.height, int(y + height) + 1)

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = PALE) -> None:
        ends = {"x1": _number(x1), "y1": _number(y1), "x2": _number(x2), "y2": _number(y2)}
        self._parts.append(element("line", {**ends, "stroke": stroke}))
        self.height = max(self.height, int(max(y1, y2)) + 1)

    def text(
        self, x: float, y: float, words: object, size: int = 12, fill: str = INK, **more: object
    ) -> None:
        place = {"x": _number(x), "y": _number(y), "font_size": size, "fill": fill}
        self._parts.append(element("text", {**place, **more}, escaped(words) or " "))
        self.height = max(self.height, int(y) + 6)

    def svg(self) -> str:
        size = {"width": self.width, "height": self.height + 10}
        about = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {self.width} {self.height + 10}"}
        ground = element("rect", {**size, "fill": PAPER})
        body = "\n".join([element("title", {}, escaped(self.title)), ground, *self._parts])
        return element(
            "svg",
            {**about, **size, "role": "img", "aria_label": self.title, "font_family": FONT},
            f"\n{body}\n",
        )


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = element("tr", {}, "".join(element("th", {}, escaped(name) or "&#160;") for name in columns))
    body = "\n".join(
        element("tr", {}, "".join(element("td", {}, escaped(cell) or "&#160;") for cell in row))
        for row in rows
    )
    return element("table", {}, f"{head}\n{body}")


def paragraph(words: object) -> str:
    return element("p", {}, escaped(words))


def heading(words: object) -> str:
    return element("h2", {}, escaped(words))


STYLE = (
    f"body{{font-family:{FONT};color:{INK};background:{PAPER};margin:2rem;max-width:70rem}}"
    "table{border-collapse:collapse;margin:1rem 0;font-size:.85rem}"
    "td,th{border-bottom:1px solid #cbd2d9;padding:.25rem .6rem;text-align:left;font-variant-numeric:tabular-nums}"
    "svg{max-width:100%;height:auto}"
)


def page(title: str, parts: Iterable[str]) -> str:
    """Well-formed XML too, so that it can be checked by parsing."""
    head = '<meta charset="utf-8"/>' + element("title", {}, escaped(title)) + element("style", {}, STYLE)
    body = element("h1", {}, escaped(title)) + "\n" + "\n".join(parts)
    return (
        "<!DOCTYPE html>\n"
        + element(
            "html",
            {"lang": "en", "xmlns": "http://www.w3.org/1999/xhtml"},
            f"<head>{head}</head>\n<body>\n{body}\n</body>",
        )
        + "\n"
    )


def write(file: Path | None, text: str) -> None:
    if file is not None:
        file.write_text(text, encoding="utf-8")


def _number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
