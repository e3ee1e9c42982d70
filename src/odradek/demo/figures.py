"""Numbers as text, with no minus before a nought."""


def rounded(value: float, digits: int = 0, *, signed: bool = False) -> str:
    """`0` for -0.3, not `-0`; with `signed` a `+` where there is no minus."""
    kept = round(value, digits) + 0.0  # -0.0 + 0.0 is 0.0
    return f"{kept:{'+' if signed else ''}.{digits}f}"


def number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value + 0.0:g}"
