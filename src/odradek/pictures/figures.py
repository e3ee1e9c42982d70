"""Numbers and times as text; with no minus before a nought."""

from datetime import UTC, datetime


def rounded(value: float, digits: int = 0, *, signed: bool = False) -> str:
    """`0` for -0.3, not `-0`; with `signed` a `+` where there is no minus."""
    kept = round(value, digits) + 0.0  # -0.0 + 0.0 is 0.0
    return f"{kept:{'+' if signed else ''}.{digits}f}"


def number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value + 0.0:g}"


def clock(at_ms: int) -> str:
    """In UTC, to the millisecond."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.") + f"{at_ms % 1000:03d}"


def shown_seconds(seconds: float) -> str:
    if seconds < 1:
        return "less than a second"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (rest if not hours else 0, "s")]
    return " ".join(f"{number} {unit}" for number, unit in parts if number)
