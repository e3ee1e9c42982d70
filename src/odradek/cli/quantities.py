"""Bytes and seconds, as people write and read them."""

from typing import Any

import click

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


class _Rate(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    name = "bytes/s"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip().upper().removesuffix("/S")
        number = text.rstrip("BKMGTI")
        unit = text[len(number) :].strip()
        try:
            rate = int(float(number) * UNITS[unit])
        except (ValueError, KeyError, OverflowError):
            self.fail(f"{value}: expected bytes a second, as in 500000, 10MB or 1GiB", param, ctx)
        if rate <= 0:
            self.fail(f"{value}: expected more than nothing, as in 10MB", param, ctx)
        return rate


RATE = _Rate()


def shown_bytes(size: int) -> str:
    """`12.3 MB`; whole below a kilobyte."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
