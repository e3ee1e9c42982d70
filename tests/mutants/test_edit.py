"""Chosen edits: found by the tree of their function wherever it is and however it is written, and put in for a while."""

import pytest

from odradek.replication import truncation
from odradek.replication.truncation import plan_truncation
from tests.mutants.edit import Edit, Outdated, found_in, site_of
from tests.mutants.mutant import Mutant
from tests.mutants.patching import CannotPatch, applied
from tests.mutants.sites import changed
from tests.mutants.table import TABLE
from tests.support import each

SOURCE = """
MOVES = {NEW: {ONLINE: start}, ONLINE: {ONLINE: start, OFFLINE: stop}}

class Log:
    def append(self, batch, now_ms):
        size = len(batch)  # bytes
        if size > self.limit:
            raise ValueError("too large")
        else:
            self.end += size
        self.tell("appended",
                  size)
        for waiter in self.waiting:
            waiter.wake(now_ms)
        return self.end

    def tell(self, what, size):
        self.told.append(what)
"""


def made(old: str, new: str, at: str = "log.x:Log.append", source: str = SOURCE) -> str:
    return changed(source, found_in(source, Edit(at, old, new)))


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        ("size > self.limit", "False", "if size > self.limit:", "if False:"),
        ("size > ...", "size > 3 or size", "if size > self.limit:", "if (size > 3 or size):"),
        ("if size > self.limit: ...", "if size: ...", "if size > self.limit:", "if size:"),
        ("self.waiting", "()", "in self.waiting:", "in ():"),
        ("for waiter in self.waiting: ...", "for waiter in (): ...", "in self.waiting:", "in ():"),
        ("self.tell('appended', ...)", "pass", 'self.tell("appended",\n                  size)', "pass"),
        ("self.tell(...)", "pass", 'self.tell("appended",\n                  size)', "pass"),
        ("return self.end", "self.end = 0\nreturn 0", "return self.end", "self.end = 0\n        return 0"),
        (
            "waiter.wake(now_ms)",
            "if size:\n    break",
            "waiter.wake(now_ms)",
            "if size:\n                break",
        ),
    ],
)
def test_an_edit_is_made_where_its_tree_stands_and_the_rest_stays(
    old: str, new: str, before: str, after: str
) -> None:
    assert made(old, new) == SOURCE.replace(before, after)


def test_a_row_of_a_table_is_named_by_its_key() -> None:
    text = made("{ONLINE: start, OFFLINE: stop}", "{OFFLINE: stop}", "log.x:MOVES[ONLINE]")

    assert text == SOURCE.replace("{ONLINE: start, OFFLINE: stop}", "{OFFLINE: stop}")
    assert made("start", "stop", "log.x:MOVES[NEW]") == SOURCE.replace("{ONLINE: start}", "{ONLINE: stop}")


@pytest.mark.parametrize("other", ["count", "length_bytes"])
def test_a_local_variable_may_have_another_name_by_now(other: str) -> None:
    source = SOURCE.replace("size", other)

    assert made("size > self.limit", "size > 9", source=source) == source.replace(
        f"{other} > self.limit", f"({other} > 9)"
    )


def test_another_layout_changes_nothing() -> None:
    source = SOURCE.replace(
        "if size > self.limit:", "if (  size\n            > self.limit  # most\n        ):"
    )

    assert "if (  False  # most" in made("size > self.limit", "False", source=source)


@pytest.mark.parametrize(
    ("at", "old"),
    [
        ("log.x:Log.append", "size < self.limit"),  # is not there
        ("log.x:Log.append", "size"),  # four times
        ("log.x:Log.close", "size > self.limit"),
        ("log.x:Log.tell", "size > self.limit"),  # of another function
        ("log.x:append", "size > self.limit"),
        (
            "log.x:Log.append",
            "waiter > self.limit",
        ),  # a variable of that name is there, and another one stands here
        ("log.x:Log.append", "weight > weight.limit"),  # what has no name any more is one variable
    ],
)
def test_what_is_not_there_once_is_outdated(at: str, old: str) -> None:
    with pytest.raises(Outdated):
        made(old, "False", at)


def test_a_module_that_is_gone_is_outdated() -> None:
    with pytest.raises(Outdated, match=r"there is no replication/nothing\.py"):
        site_of(Edit("replication.nothing:Partition.stop", "x", "y"))


def test_who_imported_the_function_runs_the_change_and_afterwards_the_code_as_it_was() -> None:
    class Empty:
        log_end_offset = 5
        latest_epoch = 0

        def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
            return epoch, 5

    def cut() -> int:
        return plan_truncation(Empty(), leader_epoch=0, leader_end_offset=3, high_watermark=1).offset

    edit = Edit(
        "replication.truncation:plan_truncation",
        "min(own_end, leader_end_offset, end)",
        "min(own_end, high_watermark)",
    )
    assert cut() == 3
    with applied([edit]):
        assert cut() == 1
        assert truncation.plan_truncation is plan_truncation
    assert cut() == 3


def test_one_that_cannot_be_made_leaves_nothing_behind() -> None:
    good = Edit("replication.isr:PendingShrinkIsr.maximal_isr", "self.isr", "self.proposed_isr")
    bad = Edit("replication.replica:Replica.divergence_point", "no_such_line()", "pass")

    before = site_of(good)
    with pytest.raises(Outdated), applied([good, bad]):
        pass
    from odradek.replication.isr import PendingShrinkIsr

    code = PendingShrinkIsr.maximal_isr.fget.__code__  # type: ignore[attr-defined]
    assert "proposed_isr" not in code.co_names
    assert before == site_of(good)


def test_a_table_of_a_module_is_not_changed_in_a_process_that_has_imported_it() -> None:
    table = Edit("controller.partition_states:TRANSITIONS[ONLINE]", "Mark", "WriteLeaderAndIsr")

    with pytest.raises(CannotPatch), applied([table]):
        pass


@each(TABLE, lambda mutant: mutant.name)
def test_every_mutant_changes_code_that_is_there(mutant: Mutant) -> None:
    for edit in mutant.edits:
        site = site_of(edit)
        assert site.old != site.new, edit


def test_names_are_names() -> None:
    assert len({mutant.name for mutant in TABLE}) == len(TABLE)
