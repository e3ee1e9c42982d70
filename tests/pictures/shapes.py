"""What an SVG picture shows, as values."""

from xml.etree import ElementTree

BOX = ("x", "y", "width", "height")
ENDS = ("x1", "y1", "x2", "y2")
Shape = tuple[str | float | None, ...]


def drawn(svg: str, tag: str, *attributes: str, **wanted: str) -> list[Shape]:
    """Of each `tag` with the attributes `wanted`, in order: these attributes, numbers as such; of a text its words first."""
    shapes: list[Shape] = []
    for element in ElementTree.fromstring(svg).iter():
        found = {name.replace("-", "_"): value for name, value in element.attrib.items()}
        is_it = element.tag.rpartition("}")[2] == tag
        if is_it and all(found.get(name.rstrip("_")) == value for name, value in wanted.items()):
            words = [element.text] if tag == "text" else []
            shapes.append((*words, *(_number(found.get(name)) for name in attributes)))
    return shapes


def _number(text: str | None) -> str | float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def tips(svg: str) -> list[str | None]:
    """What is shown to whoever points at a shape, in order; not the title of the picture."""
    shapes = [e for e in ElementTree.fromstring(svg).iter() if not e.tag.endswith("svg")]
    return [title.text for shape in shapes for title in shape if title.tag.endswith("title")]
