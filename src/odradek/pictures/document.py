"""A page around pictures: headings, paragraphs, tables. Nothing is loaded from anywhere.

Light or dark, as its reader has it; pictures lie on paper of their own. What is wider than the window scrolls by itself,
with the keyboard too, so that the page never does and no letter shrinks.
"""

from collections.abc import Iterable, Sequence

from odradek.pictures.drawing import FONT
from odradek.pictures.markup import element, escaped


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = element(
        "tr", {}, "".join(element("th", {"scope": "col"}, escaped(name) or "&#160;") for name in columns)
    )
    body = "\n".join(
        element("tr", {}, "".join(element("td", {}, escaped(cell) or "&#160;") for cell in row))
        for row in rows
    )
    return scrolling(element("table", {}, f"{head}\n{body}"), f"table: {', '.join(filter(None, columns))}")


def paragraph(words: object) -> str:
    return element("p", {}, escaped(words))


def heading(words: object) -> str:
    return element("h2", {}, escaped(words))


def scrolling(content: str, label: str) -> str:
    """`content` is markup: a picture or a table."""
    return element(
        "div", {"class_": "scrolls", "tabindex": 0, "role": "region", "aria_label": label}, content
    )


STYLE = (
    ":root{color-scheme:light dark;--ink:#1f2933;--paper:#fff;--edge:#cbd2d9}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e4e7eb;--paper:#14171c;--edge:#3e4c59}}"
    f"body{{font-family:{FONT};color:var(--ink);background:var(--paper);margin:1.5rem;overflow-wrap:anywhere}}"
    "p{max-width:70rem}"
    ".scrolls{overflow-x:auto;margin:1rem 0}svg{display:block}"
    "table{border-collapse:collapse;font-size:.85rem;overflow-wrap:normal}"
    "td,th{border-bottom:1px solid var(--edge);padding:.25rem .6rem;text-align:left;font-variant-numeric:tabular-nums}"
)


def page(title: str, parts: Iterable[str], style: str = "") -> str:
    """Well-formed XML too, so that it can be checked by parsing. `style` stands behind that of all pages."""
    head = (
        '<meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>'
        + element("title", {}, escaped(title))
        + element("style", {}, STYLE + style)
    )
    body = element("main", {}, element("h1", {}, escaped(title)) + "\n" + "\n".join(parts))
    return (
        "<!DOCTYPE html>\n"
        + element(
            "html",
            {"lang": "en", "xmlns": "http://www.w3.org/1999/xhtml"},
            f"<head>{head}</head>\n<body>\n{body}\n</body>",
        )
        + "\n"
    )
