"""A run as one page: brokers as lanes, who leads and who is in sync, faults, acknowledgements. No script, no other file.

Drawn from the actions of `trace`, so what the picture shows can be looked up there.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from odradek.model.counted import counted
from odradek.pictures import colours, document, markup
from odradek.pictures.colours import PAPER, ROLES
from odradek.pictures.document import heading, paragraph, scrolling, table
from odradek.pictures.markup import element, escaped
from odradek.pictures.scales import Scale
from odradek.sim.plan import Plan
from odradek.sim.run import OK, Outcome

LEFT, RIGHT, ROW, GAP = 150, 40, 15, 10
STYLE = (
    "svg text{font:11px system-ui,sans-serif;fill:#222}svg .small{font-size:10px}"
    f".key span{{display:inline-block;margin:0 1rem .3rem 0}}.key i{{display:inline-block;width:1.2em;height:.8em;"
    f"margin-right:.3em;border:1px solid {colours.AWAY}}}"
    ".bad{font-weight:600}"
)


class Bar(NamedTuple):
    """From `start` to `end` something was so."""

    start: float
    end: float
    what: str
    about: str


def page(plan: Plan, outcome: Outcome, actions: list[dict[str, Any]]) -> str:
    end = max([outcome.simulated_s, *(a["at_s"] for a in actions)], default=1.0)
    # What comes after the healing is mostly waiting, and is drawn all the same: whoever is late shows there.
    drawing = _Drawing(plan, outcome, actions, end)
    key = "".join(
        element("span", {}, element("i", {"style": f"background:{colour}"}, " ") + escaped(words))
        for words, colour in (
            *ROLES.items(),
            ("does not run", colours.DOES_NOT_RUN),
            ("controller", colours.CONTROLLER),
        )
    )
    parts = [
        paragraph(outcome.line),
        *(
            [element("p", {"class_": "bad"}, escaped(f"first broken: {outcome.reason}"))]
            if outcome.code != OK
            else []
        ),
        paragraph(
            f"{counted(plan.brokers, 'broker')}, {counted(plan.partitions, 'partition')}, replication factor "
            f"{plan.replication_factor}, "
            f"min.insync.replicas {plan.min_insync_replicas}, acks {plan.acks}"
            f"{', flushed before acknowledged' if plan.flushes else ''}. Point at anything to read what it is."
        ),
        element("p", {"class_": "key"}, key),
        scrolling(drawing.svg(), "brokers, faults and acknowledgements over time"),
        heading("Every action on the world"),
        table(("time", "action"), [(f"{at:.3f} s", text) for at, text in outcome.notes[-400:]]),
    ]
    return document.page(f"Seed {plan.seed}", parts, STYLE)


class _Drawing:
    def __init__(self, plan: Plan, outcome: Outcome, actions: list[dict[str, Any]], end: float) -> None:
        self.plan = plan
        self.outcome = outcome
        self.actions = actions
        self.end = end
        self.width = int(max(1100.0, min(6000.0, end * 70)))
        self.x = Scale(0.0, end, LEFT, LEFT + self.width)
        self.brokers = list(range(1, plan.brokers + 1))
        self.partitions = sorted({a["partition"] for a in actions if "partition" in a and "broker" in a})
        self.healed = next((at for at, text in outcome.notes if text == "heal everything"), end)
        self.parts: list[str] = []
        self.y = 24

    def svg(self) -> str:
        self._faults()
        for broker in self.brokers:
            self._lane(broker)
        self._acknowledgements()
        height = self.y + 24
        grid = "".join(self._grid(height))
        marks = self._healing(height) if self.healed < self.end else ""
        if self.outcome.code != OK:
            marks += self._mark(self.end, height, self.outcome.reason)
        size = {"width": self.width + LEFT + RIGHT, "height": height}
        ground = element("rect", {**size, "fill": PAPER})
        about = {
            "xmlns": "http://www.w3.org/2000/svg",
            "role": "img",
            "aria_label": f"the run of seed {self.plan.seed}",
        }
        return element("svg", {**about, **size}, f"{ground}{grid}{''.join(self.parts)}{marks}")

    def _grid(self, height: int) -> Iterator[str]:
        step = next(s for s in (0.5, 1, 2, 5, 10, 20, 50, 100, 1000) if self.end / s <= 60)
        at = 0.0
        while at <= self.end:
            x = self.x(at)
            yield markup.line(x, 18, x, height, stroke="#eee")
            yield markup.text(x, 12, f"{at:g} s", class_="small")
            at += step

    def _mark(self, at_s: float, height: int, why: str) -> str:
        x = self.x(at_s)
        return markup.line(x, 18, x, height, why, stroke=colours.BAD, stroke_width=2)

    def _healing(self, height: int) -> str:
        x = self.x(self.healed)
        tip = "everything is healed: from here on it has to come to rest"
        mark = markup.line(x, 18, x, height - 14, tip, stroke=colours.GOOD, stroke_dasharray="4 3")
        return mark + markup.text(x + 3, height - 6, "healed", class_="small")

    def _bar(self, bar: Bar, colour: str, y: float, height: float = ROW - 3, text: str = "") -> None:
        left, right = self.x(bar.start), self.x(min(bar.end, self.end))
        title = f"{bar.what} {bar.start:.3f} to {bar.end:.3f} s {bar.about}"
        self.parts.append(markup.rectangle(left, y, max(right - left, 1.5), height, title, fill=colour))
        if text and right - left > 7 * len(text):
            ink = f"fill:{colours.readable_on(colour)}"
            self._small(left + 2, y + height - 2.5, text, style=ink)

    def _small(self, x: float, y: float, text: str, **more: object) -> None:
        """Over a bar: whoever points at it points at the bar."""
        self.parts.append(markup.text(x, y, text, class_="small", pointer_events="none", **more))

    def _label(self, text: str, *, small: bool = False) -> None:
        kind = {"class_": "small"} if small else {}
        self.parts.append(markup.text(6, self.y + ROW - 5, text, **kind))

    # --- faults on top

    def _faults(self) -> None:
        self._label("faults")
        busy: list[float] = []  # until when each row is taken
        # When each was told to the world: one that waited until everybody was well struck later than it was planned to.
        struck = (at for at, text in self.outcome.notes if text.startswith("fault "))
        for start, fault in zip(struck, self.outcome.injected, strict=True):
            shown_to = start + max(fault.lasts_s, self.end * 8 * len(fault.kind) / self.width)
            row = next((n for n, until in enumerate(busy) if until <= start), len(busy))
            busy[row : row + 1] = [shown_to]
            y = self.y + row * ROW
            end = max(start, min(start + fault.lasts_s, self.healed))
            self._bar(Bar(start, end, fault.kind, str(fault)), colours.FAULT, y)
            self._small(self.x(start) + 2, y + ROW - 5.5, fault.kind)
        self.y += max(len(busy), 1) * ROW + GAP

    # --- one broker

    def _lane(self, broker: int) -> None:
        mine = [a for a in self.actions if a.get("broker") == broker]
        top = self.y
        self._label(f"broker {broker}")
        terms = list(self._spans(mine, "BecomeController", ("ResignController", "BrokerEnds"), "controller"))
        for bar in terms:
            self._bar(bar, colours.CONTROLLER, self.y, text=f"controller {bar.about.rpartition('=')[2]}")
        self.y += ROW
        for partition in self.partitions:
            self._label(f"    {partition}", small=True)
            for bar, colour, text in self._roles(mine, broker, partition):
                self._bar(bar, colour, self.y, text=text)
            self._truncations(mine, partition)
            self.y += ROW
        for bar in self._spans(mine, "BrokerEnds", ("BrokerStarts",), "does not run"):
            self._bar(bar, colours.DOES_NOT_RUN, top, self.y - top - 3)
        for bar in self._pauses(broker):
            self._bar(bar, colours.PAUSED, top, self.y - top - 3)
        self.y += GAP

    def _spans(
        self, actions: Iterable[dict[str, Any]], begins: str, ends: tuple[str, ...], what: str
    ) -> Iterator[Bar]:
        start: dict[str, Any] | None = None
        for action in actions:
            if action["action"] == begins and start is None:
                start = action
            elif action["action"] in ends and start is not None:
                yield Bar(start["at_s"], action["at_s"], what, _about(start))
                start = None
        if start is not None:
            yield Bar(start["at_s"], self.end, what, _about(start))

    def _pauses(self, broker: int) -> Iterator[Bar]:
        prefix = f"pause b{broker}#"
        for at, text in self.outcome.notes:
            if text.startswith(prefix):
                seconds = float(text.rsplit(" for ", 1)[1].removesuffix(" s"))
                yield Bar(at, min(at + seconds, self.healed), "paused", "")

    def _roles(
        self, mine: list[dict[str, Any]], broker: int, partition: str
    ) -> Iterator[tuple[Bar, str, str]]:
        """What the broker believes of itself, coloured by what the store says of it."""
        role: str | None = None  # leads | follows
        leader, epoch, isr = -1, -1, frozenset[int]()
        start = 0.0
        relevant = [
            a
            for a in self.actions
            if (a.get("partition") == partition and (a.get("broker", broker) == broker))
            or (a["action"] in ("BrokerEnds", "BrokerStarts") and a.get("broker") == broker)
        ]
        for action in relevant:
            name, at = action["action"], action["at_s"]
            before = (role, leader, epoch, isr)
            if name == "BecomeLeader":
                role, leader, epoch = "leads", broker, action["leader_epoch"]
            elif name == "FencedBecomeFollowerAndTruncate":
                role, leader, epoch = "follows", action["leader"], action["leader_epoch"]
            elif name in ("BrokerEnds", "BrokerStarts", "ReplicaGone"):
                role = None
            elif name.startswith("Controller"):
                isr = frozenset(action["isr"])
            if (role, leader, epoch, isr) != before:
                yield from _role_bar(before, broker, start, at)
                start = at
        yield from _role_bar((role, leader, epoch, isr), broker, start, self.end)

    def _truncations(self, mine: list[dict[str, Any]], partition: str) -> None:
        for action in mine:
            if action.get("partition") == partition and action["action"] == "FollowerTruncate":
                x, y = self.x(action["at_s"]), self.y
                tip = element("title", {}, escaped(_about(action)))
                shape = f"M{x - 4:.1f} {y} L{x + 4:.1f} {y} L{x:.1f} {y + 8} Z"
                self.parts.append(element("path", {"d": shape, "fill": colours.LOST}, tip))

    # --- what clients got

    def _acknowledgements(self) -> None:
        sends = [a for a in self.actions if a["action"] == "ProducerSent"]
        for partition in sorted({a["partition"] for a in sends}):
            self._label(f"sends {partition}", small=True)
            for action in sends:
                if action["partition"] == partition:
                    self._tick(action)
            self.y += ROW

    def _tick(self, action: dict[str, Any]) -> None:
        colour = {"ok": colours.GOOD, "failed": colours.BAD}.get(action["outcome"], colours.UNKNOWN)
        x = self.x(action["at_s"])
        self.parts.append(markup.line(x, self.y, x, self.y + ROW - 3, _about(action), stroke=colour))


def _role_bar(
    state: tuple[str | None, int, int, frozenset[int]], broker: int, start: float, end: float
) -> Iterator[tuple[Bar, str, str]]:
    role, leader, epoch, isr = state
    if role is None or end <= start:
        return
    if role == "leads":
        what = "leads"
    elif leader < 0:
        what = "no leader"
    else:
        what = "in sync" if broker in isr else "out of sync"
    about = f"epoch {epoch}, leader {leader}, stored ISR {sorted(isr)}"
    yield Bar(start, end, what, about), ROLES[what], f"{epoch}" if role == "leads" else ""


def _about(action: dict[str, Any]) -> str:
    return " ".join(f"{k}={v}" for k, v in action.items() if k not in ("at_s", "event", "what", "since_s"))
