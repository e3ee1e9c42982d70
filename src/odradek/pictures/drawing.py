"""An SVG picture that grows downwards, in one font and on paper of its own."""

from odradek.pictures import markup
from odradek.pictures.colours import INK, PALE, PAPER
from odradek.pictures.markup import element, escaped

FONT = "ui-sans-serif, system-ui, sans-serif"


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
        self._parts.append(markup.rectangle(x, y, width, height, tip, fill=fill, **more))
        self.height = max(self.height, int(y + height) + 1)

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = PALE) -> None:
        self._parts.append(markup.line(x1, y1, x2, y2, stroke=stroke))
        self.height = max(self.height, int(max(y1, y2)) + 1)

    def text(
        self, x: float, y: float, words: object, size: int = 12, fill: str = INK, **more: object
    ) -> None:
        self._parts.append(markup.text(x, y, words, font_size=size, fill=fill, **more))
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
