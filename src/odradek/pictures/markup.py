"""SVG and HTML elements as text. No text gets into a picture but through `escaped`.

Names of topics cannot hold markup, but reasons, paths and names of racks can hold anything.
"""

from collections.abc import Mapping


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
    """`content` is markup already: text goes through `escaped` first. `_` in a name stands for `-`; at its end, as in
    `class_`, it is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"' for key, value in attributes.items()
    )
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


# In pixels, y downwards. `tip`: what is shown to whoever points at it.


def rectangle(x: float, y: float, width: float, height: float, tip: str = "", **more: object) -> str:
    box = {"x": pixels(x), "y": pixels(y), "width": pixels(max(width, 0.0)), "height": pixels(height)}
    return element("rect", {**box, **more}, _title(tip))


def line(x1: float, y1: float, x2: float, y2: float, tip: str = "", **more: object) -> str:
    ends = {"x1": pixels(x1), "y1": pixels(y1), "x2": pixels(x2), "y2": pixels(y2)}
    return element("line", {**ends, **more}, _title(tip))


def text(x: float, y: float, words: object, **more: object) -> str:
    return element("text", {"x": pixels(x), "y": pixels(y), **more}, escaped(words) or " ")


def pixels(value: float) -> str:
    """To a tenth, which nobody can see."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _title(tip: str) -> str:
    return element("title", {}, escaped(tip)) if tip else ""
