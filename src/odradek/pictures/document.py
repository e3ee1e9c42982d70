"""A page around pictures: headings, paragraphs, tables. Nothing is loaded from anywhere."""

from collections.abc import Iterable, Sequence

from odradek.pictures.colours import INK, PAPER
from odradek.pictures.drawing import FONT
from odradek.pictures.markup import element, escaped


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
