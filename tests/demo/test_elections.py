"""Who was elected and why, from journals; and the time line of acknowledgements."""

import json

from odradek.demo import elections
from odradek.demo.timeline import SLOT_MS, Timeline


def change(partition, leader, epoch, reason, isr=(1, 2, 3), kind="leadership"):
    state = {"type": "LeaderAndIsr", "leader": leader, "leader_epoch": epoch, "isr": list(isr)}
    return {"kind": kind, "topic_partition": partition, "leader_and_isr": state, "reason": reason}


def line(at_ms, controller, epoch, event, *changes):
    return json.dumps(
        {
            "at_ms": at_ms,
            "controller": controller,
            "epoch": epoch,
            "event": {"type": event},
            "changes": list(changes),
        }
    )


def write(path, *lines, tail=""):
    path.write_text("".join(text + "\n" for text in lines) + tail, encoding="utf-8")
    return path


def test_journals_of_several_controllers_are_read_as_one(tmp_path):
    first = write(
        tmp_path / "controller-1.jsonl",
        line(10, 1, 1, "Elected"),
        line(20, 1, 1, "CreateTopics", change("flights-0", 1, 0, "new"), change("other-0", 1, 0, "new")),
        # A controller that is killed leaves half a line.
        tail='{"at_ms": 99, "contr',
    )
    second = write(
        tmp_path / "controller-2.jsonl",
        line(102, 2, 2, "Elected"),
        line(
            105,
            2,
            2,
            "WritesAnswered",
            change("flights-0", 2, 1, "controller failover", (2, 3)),
            change("flights-0", 2, 1, "first assigned replica that is live", (2, 3), kind="partition"),
        ),
        line(106, 2, 2, "WritesAnswered", change("flights-0", 2, 1, "ISR grows", (2, 3, 1))),
    )
    told = elections.read([second, first], "flights")
    assert [(c.broker, c.epoch) for c in told.controllers] == [(1, 1), (2, 2)]
    assert told.controller_after(100).broker == 2
    assert told.controller_after(103) is None
    (leader,) = told.leaders
    assert (leader.partition, leader.leader_before, leader.leader, leader.leader_epoch) == (
        "flights-0",
        1,
        2,
        1,
    )
    assert (leader.isr_before, leader.isr) == ((1, 2, 3), (2, 3))
    # Of the two changes the election says why.
    assert (leader.reason, leader.controller) == ("first assigned replica that is live", 2)
    assert told.leaders_between(0, 105) == []
    assert told.leaders_between(105, 106) == [leader]


def test_the_longest_gap_is_between_two_acknowledgements_of_any_partition():
    timeline = Timeline(1000.0)
    for at_ms, partition in ((1001, 0), (1002, 1), (1300, 0), (1301, 1), (1400, 1)):
        timeline.acknowledged(at_ms, partition)
    assert (timeline.longest_gap_ms, timeline.longest_gap_at_ms) == (298, 1300)


def test_the_rate_has_a_sample_for_every_slot_also_empty_ones():
    timeline = Timeline(0.0)
    for _ in range(4):
        timeline.acknowledged(1.0, 0)
    timeline.acknowledged(SLOT_MS * 3 + 1, 0)
    per_slot = 1000 / SLOT_MS
    assert [rate for _, rate in timeline.per_second()] == [4 * per_slot, 0, 0, per_slot]
    assert timeline.slots[3] == {0: 1}


def test_moments_are_kept_in_the_order_of_time():
    timeline = Timeline(0.0)
    timeline.mark(5, "b", "later")
    timeline.mark(1, "a", "earlier")
    assert [moment.name for moment in timeline.moments] == ["a", "b"]
    assert timeline.moment("b").at_ms == 5
    assert timeline.moment("c") is None
    assert timeline.ended_ms == 5


def test_a_line_that_was_cut_short_before_its_controller_came_back_is_left_out(tmp_path):
    """The next term begins on a line of its own, behind the half one (server/appended_file.py)."""
    journal = write(
        tmp_path / "controller-1.jsonl",
        line(10, 1, 1, "Elected"),
        '{"at_ms": 99, "contr',
        line(200, 1, 3, "Elected"),
    )
    assert [(c.broker, c.epoch) for c in elections.read([journal], "flights").controllers] == [(1, 1), (1, 3)]
