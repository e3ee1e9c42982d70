"""After any events, appends that fail and fates that come late among them: who does in time what it is told stays a member, and of
those that fall silent nothing is left. No request, timer or deadline outlives them, for what would end it may be what was lost.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.coordinator.effects import Append
from odradek.coordinator.group_states import GroupState
from odradek.coordinator.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.coordinator.consumers import beat
from tests.coordinator.groups import GROUP, Bench
from tests.coordinator.passing_time import MOST_TURNS, time_passes
from tests.coordinator.well_behaved import (
    IS_SENT_OFF,
    JOINS,
    REBALANCE_MS,
    SESSION_MS,
    SYNCS,
    Classic,
    Client,
    OfKip848,
)

# A first join that nobody stands behind, a rebalance for each of those that go one after the other, and their sessions.
LONGEST_MS = NEW_MEMBER_JOIN_TIMEOUT_MS + 6 * (REBALANCE_MS + SESSION_MS)
ROUND_MS, ROUNDS = 3_000, 20
COMMIT, FAIL, LATE, LATE_AND_FAILED, LATE_AND_COMMITTED = "commit", "fail", "late", "late, failed", "late, in"
EVENTS = (
    *["go on"] * 8, *["all go on"] * 3, "all get there", *[COMMIT] * 6, *["time"] * 3, *["slow"] * 3, "begin anew", "other protocol", "leave", "leave to return",
    "answer is lost", FAIL, FAIL, LATE, LATE, LATE_AND_FAILED, LATE_AND_FAILED, LATE_AND_COMMITTED, LATE_AND_COMMITTED, "offset",
    "delete", "move", "aside", "topic",
)  # fmt: skip
TIMES_MS = (1, 2_900, 9_999, 11_000, 19_999, 31_000)
TURNS = st.lists(
    st.tuples(st.sampled_from(EVENTS), st.integers(0, 3), st.integers(0, 5)), min_size=30, max_size=90
)
# What happens last: what it loses nothing else makes up for.
ENDS = ("long wait, commit", "long wait, fail", "long wait, join", "back", "classic again")
# Before the timer of a first join comes, which looks at whoever has a session by then.
SOON_MS = 4 * (REBALANCE_MS + SESSION_MS)
FATES = st.lists(st.sampled_from((COMMIT, FAIL, LATE_AND_FAILED, LATE_AND_COMMITTED)), max_size=6)


class World:
    def __init__(self, *, is_mixed: bool) -> None:
        self.is_mixed = is_mixed
        self.bench = Bench(held=True, consumer_session_timeout_ms=SESSION_MS)
        self.late: list[tuple[Append, int]] = []
        self.open: set[int] = set()
        self.other = OfKip848 if is_mixed else Classic
        self.clients: list[Client] = [
            Classic("A", None),
            self.other("B", None),
            Classic("C", "c"),
            self.other("D", "d"),
        ]

    # -------------------------------------------------------------------------------------------- what happens

    def turn(self, event: str, who: int, amount: int) -> None:
        bench, client = self.bench, self.clients[who]
        match event:
            case "go on":
                self.go_on(client)
            case "all go on":
                for one in self.clients:
                    self.go_on(one)
            case "all get there":
                for _ in range(3):
                    for one in self.clients:
                        self.go_on(one)
                        self.decide(COMMIT)
            case "time":
                self.wait(TIMES_MS[amount])
            case "slow":
                self._are_slow()
            case "begin anew":
                client.call = None
                client.begin_anew()
            case "other protocol" if self.is_mixed:
                kind = OfKip848 if isinstance(client, Classic) else Classic
                self.clients[who] = kind("ABCD"[who], client.instance)
            case "leave" if client.call is None:
                self.open.add(client.leave(bench))
            case "leave to return" if isinstance(client, OfKip848) and client.instance and client.epoch:
                self.open.add(bench.ask(beat(client.name, -2, instance_id=client.instance), 1))
                client.begin_anew()
            case "answer is lost":
                client.call = None
            case "offset":
                self.open.add(bench.commit_offset(amount))
            case "delete":
                self.open.add(bench.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2))
            case "move":
                self.late.clear()
                bench.move()
                self.hear()
                assert not self.open, "the coordinator that went has not answered"
            case "aside":
                bench.do_asides()
            case "topic":
                bench.topics.set("t", 4 + amount)
            case _:
                self.decide(event)
        self.hear()

    def go_on(self, client: Client) -> None:
        if client.call is None:
            client.call = client.ask(self.bench)
            self.open.add(client.call)
            self.hear()

    def decide(self, fate: str) -> None:
        """Of the oldest append. Those behind it are committed when its own fate is known."""
        bench = self.bench
        match fate:
            case "commit" if bench.waiting and not self.late:
                bench.commit()
            case "fail" if bench.waiting and not self.late:
                bench.fail()
            case "late" if bench.waiting:
                self.late.append(bench.waiting[0])
                bench.step_late()
            case "late, failed" if self.late:
                append, base_offset = self.late.pop(0)
                self.late = [(one, at - len(append.records)) for one, at in self.late]
                bench.fail_late((append, base_offset))
            case "late, in" if self.late:
                bench.commit_late(self.late.pop(0))

    def decide_all(self, fate: str = COMMIT) -> None:
        """Of each append there is, one after the other; what they bring about is committed."""
        self._decide_late(fate)
        for _ in range(len(self.bench.waiting)):
            if fate in (LATE_AND_FAILED, LATE_AND_COMMITTED):
                self.decide(LATE)
            self.decide(fate)
        for _ in range(MOST_TURNS):
            self.bench.do_asides()
            if not self.bench.waiting:
                break
            self.bench.commit()
        assert not self.bench.waiting, "one append brings about the next, for ever"
        self.hear()

    def _are_slow(self) -> None:
        """Whoever is in a generation keeps its session, and does no more: those that are parked wait for longer than theirs."""
        for _ in range(5):
            self.wait(2_900)
            for client in self.clients:
                if isinstance(client, Classic) and client.call is None and client.generation >= 0:
                    self.open.add(self.bench.heartbeat_call(client.member, client.generation))

    def end(self, how: str) -> None:
        if how == "classic again":
            for _ in range(6):
                self._all_go_on(self.clients)
                self.decide_all()
            self._all_leave([one for one in self.clients if isinstance(one, OfKip848)])
            return
        if how == "back":
            for _ in range(15):
                self._all_go_on(self.clients)
                self.decide_all()
            self.wait(4_000)
            self.clients[2].begin_anew()
            self._all_go_on(self.clients[2:3])
            self.decide_all()
            return
        for _ in range(15):
            self._all_go_on([one for one in self.clients if not self._is_in_generation(one)])
            self.decide_all()
        leaders = [
            one for one in self.clients if isinstance(one, Classic) and one.joined and one.joined.members
        ]
        self._all_go_on([one for one in self.clients if one not in leaders])
        self._are_slow()
        if how == "long wait, join":
            self.clients.append(self.other("N", None))
            self._all_go_on(self.clients[-1:] * 2)
        else:
            self._all_go_on(leaders)
            self.decide(how.removeprefix("long wait, "))

    def _all_leave(self, clients: Sequence[Client]) -> None:
        for client in clients:
            self.open.add(client.leave(self.bench))
            self.decide_all()

    def _is_in_generation(self, client: Client) -> bool:
        """Of its own, in which it has not asked for its assignment. One that has not heard that the others join again joins too."""
        if not isinstance(client, Classic) or client.does == JOINS:
            return False
        group = self.bench.coordinator.shard.groups.get(GROUP)
        if group is None or group.state is not GroupState.COMPLETING or client.generation != group.generation:
            client.does = JOINS
        return client.does == SYNCS

    def _all_go_on(self, clients: Sequence[Client]) -> None:
        for client in clients:
            self.go_on(client)

    def _decide_late(self, fate: str) -> None:
        for _ in range(len(self.late)):
            self.decide(LATE_AND_FAILED if fate in (FAIL, LATE_AND_FAILED) else LATE_AND_COMMITTED)

    def wait(self, ms: int) -> None:
        bench = self.bench
        time_passes(bench, ms, lambda: None if bench.held else bench.do_asides())

    def hear(self) -> list[tuple[Client, ErrorCode, bool]]:
        """Who was told what, and whether it was a member before."""
        heard = []
        for client in self.clients:
            if client.call is not None and client.call in self.bench.answers:
                was_member = client.is_member
                error = client.hear(self.bench.answers[client.call])
                client.call = None
                heard.append((client, error, was_member))
        self.open -= self.bench.answers.keys()
        self.bench.answers.clear()
        return heard

    # -------------------------------------------------------------------------------------------- what is judged

    def all_are_diligent(self) -> None:
        """For some time, in which the topic grows and somebody comes and goes. Nobody that is told to be a member hears that it is none."""
        self.decide_all()
        self.bench.held = False
        for client in self.clients:
            client.is_member = False
        guest: Client = self.other("G", None)
        for number in range(ROUNDS):
            if number == ROUNDS // 4:
                self.bench.topics.set("t", 12)
            if number == ROUNDS // 3:
                self.clients.append(guest)
            for client in list(self.clients):
                self._takes_a_step(client)
                self._takes_a_step(client)
            if number == ROUNDS // 2:
                self.clients.remove(guest)
                self.open.add(guest.leave(self.bench))
                self.hear_and_judge()
            self.wait(ROUND_MS)
            self.hear_and_judge()

    def _takes_a_step(self, client: Client) -> None:
        if client.call is None:
            client.call = client.ask(self.bench)
            self.open.add(client.call)
        self.bench.do_asides()
        self.hear_and_judge()

    def hear_and_judge(self) -> None:
        for client, error, was_member in self.hear():
            assert not (was_member and error in IS_SENT_OFF), f"{vars(client)} was sent off: {error.name}"

    def all_are_silent(self, fates: list[str]) -> None:
        """Longer than anything may last; the first of what is written for that fails, or comes late."""
        self.bench.held = True
        for fate in fates:
            self.wait(REBALANCE_MS + SESSION_MS)
            for _ in range(len(self.bench.waiting)):
                self.decide(LATE if fate in (LATE_AND_FAILED, LATE_AND_COMMITTED) else fate)
            self.wait(SESSION_MS)
            self._decide_late(fate)
        self.decide_all()
        self.bench.held = False
        self.wait(LONGEST_MS)
        self.hear()

    def nobody_is_left_soon(self) -> None:
        self.decide_all()
        self.bench.held = False
        self.wait(SOON_MS)
        shard = self.bench.coordinator.shard
        assert not any(group.members for group in shard.groups.values())
        assert all(group.is_empty for group in shard.consumer_groups.values())

    def nothing_is_left(self) -> None:
        shard = self.bench.coordinator.shard
        assert not self.open, f"{self.open} are not answered"
        for group in shard.groups.values():
            assert (group.state, group.members, group.pending_ids) == (GroupState.EMPTY, {}, {})
            assert (group.join_ends_at_ms, group.sync_ends_at_ms) == (None, None)
            assert (group.storing, group.returning, group.unsynced) == (None, None, set())
        for consumers in shard.consumer_groups.values():
            assert consumers.is_empty and not consumers.is_dead
            assert (consumers.deadlines, consumers._armed) == ({}, {})
            assert (consumers.is_assigning, consumers.is_resolving) == (False, False)
        for image in shard.stored.consumer_groups.values():
            assert not image.members and not image.current and not image.targets
        books: list[Any] = [
            shard.waiting,
            shard.turns,
            shard.busy,
            shard.stalled,
            shard._in_flight,
            shard._late,
        ]
        books += [shard.offsets._in_flight, shard.timers._heap]
        assert not any(books), books
        assert (shard.pending_ids, shard.pending_bytes) == (0, 0)


@pytest.mark.parametrize("is_mixed", [False, True])
@given(TURNS, FATES, st.booleans())
@settings(max_examples=50)
def test_who_is_in_time_stays_and_of_who_is_silent_nothing_is_left(
    is_mixed: bool, turns: list[tuple[str, int, int]], fates: list[str], are_diligent: bool
) -> None:
    world = World(is_mixed=is_mixed)
    for turn in turns:
        world.turn(*turn)
    if are_diligent:
        world.all_are_diligent()
    world.all_are_silent(fates)
    world.nothing_is_left()


@pytest.mark.parametrize("end", ENDS)
def test_who_falls_silent_after_a_long_wait_or_a_return_is_gone_soon(end: str) -> None:
    world = World(is_mixed=end == "classic again")
    world.end(end)
    assert world.bench.group.members
    world.nobody_is_left_soon()
    world.all_are_silent([])
    world.nothing_is_left()
