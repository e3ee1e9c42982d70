"""One file per API: the tables of a request, its response and their structs.

Files are loaded when they are first asked for; a broker needs half of them.
"""

from importlib import import_module

from odradek.protocol.api_keys import APIS
from odradek.protocol.errors import UnsupportedVersion
from odradek.protocol.schema import Message, Request, Response

_LOADED: dict[tuple[int, str], type[Message]] = {}


def request_class(key: int) -> type[Request]:
    found = _load(key, "Request")
    assert issubclass(found, Request)
    return found


def response_class(key: int) -> type[Response]:
    found = _load(key, "Response")
    assert issubclass(found, Response)
    return found


def _load(key: int, kind: str) -> type[Message]:
    found = _LOADED.get((key, kind))
    if found is None:
        if key not in APIS:
            raise UnsupportedVersion(f"API key {key} is not known; known are {_ranges()}")
        api = APIS[key]
        module = import_module(f"{__name__}.{api.key.name.lower()}")
        found = _LOADED[key, kind] = getattr(module, api.name + kind)
    return found


def _ranges() -> str:
    """`0-37, 42-51, ...`: the keys there are tables for."""
    spans: list[list[int]] = []
    for key in sorted(APIS):
        if spans and key == spans[-1][1] + 1:
            spans[-1][1] = key
        else:
            spans.append([key, key])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
