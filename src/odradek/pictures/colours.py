"""Colours, by what they stand for, and what can be read on them."""

import itertools

INK, PALE, PAPER = "#1f2933", "#e4e7eb", "#ffffff"
# What a replica is, in the time line of a partition.
LEADS, IN_SYNC, BEHIND, AWAY = "#1d6fa5", "#8cc7e8", "#dbe9f2", "#b0b8c1"
NOBODY_LEADS, MOVES = "#d64545", "#e0a526"
# A step of a reassignment: its ground, and what is written on it.
STEPS = {"done": ("#277a4d", PAPER), "now": (MOVES, INK), "to come": (PALE, INK)}
# What a broker believes of itself, in the time line of a simulated run.
ROLES = {"leads": "#1f6f5c", "in sync": "#8fc7b0", "out of sync": "#e8d8a0", "no leader": "#d9a0a0"}
CONTROLLER, DOES_NOT_RUN, PAUSED, FAULT = "#c9b6e4", "#777", "#77777788", "#e39a5c"
GOOD, BAD, LOST = "#2a7d2a", "#c00000", "#b03030"
UNKNOWN = "#c08000"  # of a send: neither acknowledged nor refused
# Broker 1, 2, 3, ...: told apart also without colour vision (Okabe and Ito).
BROKERS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")


def broker_colour(broker: int) -> str:
    return BROKERS[(broker - 1) % len(BROKERS)]


def readable_on(ground: str) -> str:
    """Black or white: one of them has a contrast of 4.58 or more on any colour (WCAG 2.1)."""
    channels = [int(ground[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#000000" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "#ffffff"


def diverging(share: float) -> str:
    """-1 blue, 0 near white, +1 dark red."""
    stops = ((-1.0, (33, 102, 172)), (0.0, (247, 245, 240)), (0.5, (244, 165, 96)), (1.0, (165, 28, 36)))
    for (low, first), (high, last) in itertools.pairwise(stops):
        if share <= high:
            part = (share - low) / (high - low)
            mixed = (round(a + (b - a) * part) for a, b in zip(first, last, strict=True))
            return "#" + "".join(f"{channel:02x}" for channel in mixed)
    return "#a51c24"
