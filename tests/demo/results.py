"""Results of a demo without the demo: a small one, and one as large as the flights of 2013 make it."""

import math

from odradek.demo.elections import ControllerElected, Elections, LeaderElected
from odradek.demo.proof import Census, Proof
from odradek.demo.result import Aggregate, DemoResult, Group, GroupReading
from odradek.demo.timeline import Timeline


def a_result(lost: int = 0) -> DemoResult:
    timeline = Timeline(1_000_000.0)
    for ms in range(0, 4000, 2):
        if not 2000 <= ms < 2140:
            timeline.acknowledged(timeline.begun_ms + ms, ms // 2 % 6)
    timeline.mark(1_002_000, "kill", "kill -9 of broker 1")
    timeline.mark(1_002_012, "controller", "broker 2 elected controller")
    timeline.mark(1_002_031, "leader", "new leaders")
    timeline.mark(1_003_000, "restart", "broker 1 started again")
    timeline.mark(1_003_400, "isr-full", "every ISR full again")
    whole, short = Census(1000, "0a" * 16, None), Census(1000 - lost, "0b" * 16, None)
    return DemoResult(
        "flights",
        ["a<b>.csv"],
        6,
        3,
        3,
        records=1000,
        killed=1,
        controller_before=1,
        timeline=timeline,
        first_leaders={p: p % 3 + 1 for p in range(6)},
        elections=Elections(
            (ControllerElected(1_002_012, 2, 2),),
            (LeaderElected(1_002_031, "flights-0", 1, 2, 1, (1, 2, 3), (2, 3), "broker 1 <failed>", 2),),
        ),
        reading=GroupReading("flights-readers-7", 2, 0, 3, 421.4),
        coordinator_before=1,
        coordinator_after=2,
        driver_killed_at="kill -9 in batch 2",
        batches=6,
        aggregate=Aggregate(
            "carrier",
            "hour",
            "departure delay in minutes",
            (Group("UA", "5", 60, 50, 250.0), Group("UA", "6", 40, 30, -30.0), Group("AA", "5", 30, 0, 0.0)),
        ),
        proof=Proof(whole, whole, short if lost else whole, 0, 0, lost, 0),
        seconds=90,
    )


CARRIERS = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV")


def flights_of_a_year() -> DemoResult:
    """Sixteen carriers, nineteen hours, means around nought; marks of one kill within milliseconds of each other."""
    result = a_result()
    timeline = Timeline(1_000_000.0)
    for ms in range(0, 17_000, 2):
        if not 8_000 <= ms < 8_041:
            for _ in range(40):
                timeline.acknowledged(timeline.begun_ms + ms, ms // 2 % 6)
    timeline.mark(1_008_000, "kill", "kill -9 of broker 3, controller and leader")
    timeline.mark(1_008_023, "controller", "broker 2 elected controller")
    timeline.mark(1_008_026, "leader", "new leaders of 2 partitions: flights-0 -> 1")
    timeline.mark(1_010_400, "restart", "broker 3 started again")
    timeline.mark(1_010_800, "isr-full", "every ISR full again")
    result.timeline = timeline
    result.records = 336_776
    result.killed = result.controller_before = 3
    result.elections = Elections(
        (ControllerElected(1_008_023, 2, 2),),
        tuple(
            LeaderElected(
                1_007_999.7 + p,
                f"flights-{p}",
                3,
                p % 2 + 1,
                1,
                (1, 2, 3),
                (1, 2),
                "broker 3 failed: broker 1 is the first live replica of the ISR",
                2,
            )
            for p in (0, 3)
        ),
    )
    result.java = "OpenJDK 17.0.2, PySpark 4.2.0."
    groups = []
    for row, carrier in enumerate(CARRIERS):
        for hour in range(5, 24):
            flights = 20 + (row * 37 + hour * 91) % 3_000
            mean = 14 * math.sin(row / 3) + (hour - 12) * 2.0 - 0.02
            groups.append(Group(carrier, str(hour), flights, flights, mean * flights))
    result.aggregate = Aggregate("carrier", "hour", "departure delay in minutes", tuple(groups))
    return result
