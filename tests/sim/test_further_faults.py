"""Faults of disks, wires and time: each finds something to act on, is survived, and does what its name says."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from odradek.log.memory_files import UNLIMITED, Choose, MemoryDirectory, MemoryDisk
from odradek.sim.faults import disks
from odradek.sim.faults import injection as faults
from odradek.sim.faults.disks import _files
from odradek.sim.faults.wire import control_frames
from odradek.sim.plan import (
    ACTIONS,
    ALONE_KINDS,
    ASKED_KINDS,
    BATCH_KINDS,
    CLEANER_KINDS,
    CLIENT_KINDS,
    FURTHER_KINDS,
    GROUP_KINDS,
    KINDS,
    LOG_KINDS,
    MIXED_SLOW_KINDS,
    MOMENT_KINDS,
    RELEASE_KINDS,
    RUDE_KINDS,
    SELDOM_KINDS,
    SLOW_KINDS,
    SLOW_TRANSACTION_KINDS,
    TABLES,
    TRANSACTION_KINDS,
    WANT_KINDS,
    Fault,
    Plan,
    _of_groups,
    _of_mixed_groups,
    _of_transactions,
    draw,
)
from odradek.sim.run import OK, Outcome, describe, run
from odradek.sim.world import World


def plan_with(*chosen: Fault, seed: int = 1, duration_s: float = 12.0) -> Plan:
    """Three partitions in three copies on four brokers, and these faults alone. What is asked of a world costs what it lasts."""
    return replace(
        draw(seed),
        brokers=4,
        partitions=3,
        replication_factor=3,
        min_insync_replicas=2,
        producers=2,
        acks=-1,
        is_idempotent=True,
        pause_between_sends_s=0.05,
        duration_s=duration_s,
        flushes=False,
        store_notices_death=True,
        faults=chosen,
        settings={"log.segment.bytes": "1500", "replica.lag.time.max.ms": "3000"},
        has_sharers=False,
        mixed_group="",
        has_transactions=False,
        has_static_members=False,
        first_level=2,
        fetch_bytes=1 << 20,
    )


def notes(outcome: Outcome, text: str) -> list[str]:
    return [note for _, note in outcome.notes if text in note]


def test_every_kind_has_its_function() -> None:
    drawn = [
        *KINDS,
        *FURTHER_KINDS,
        *CLIENT_KINDS,
        *BATCH_KINDS,
        *LOG_KINDS,
        *RUDE_KINDS,
        *MOMENT_KINDS,
        *CLEANER_KINDS,
        *GROUP_KINDS,
        *SLOW_KINDS,
        *MIXED_SLOW_KINDS,
        *TRANSACTION_KINDS,
        *SLOW_TRANSACTION_KINDS,
        *RELEASE_KINDS,
        *WANT_KINDS,
        *SELDOM_KINDS,
        *ASKED_KINDS,
        *ALONE_KINDS,
    ]
    assert set(drawn) == set(faults.TABLE)
    assert len({*drawn, *ACTIONS}) == len(drawn) + len(ACTIONS)


# Those that end a life come first: in one world each has one beside it that ends none, for while records of a dead broker may be
# the last ones nobody else is killed (`faults.inject`). Where the number is odd, the last one has the first beside it.
SURVIVED = sorted(
    [*FURTHER_KINDS, *CLIENT_KINDS, *BATCH_KINDS, *LOG_KINDS, *RUDE_KINDS, *MOMENT_KINDS, *WANT_KINDS],
    key=lambda kind: (kind not in faults.ENDS_A_LIFE, kind),
)
HALF = (len(SURVIVED) + 1) // 2
PAIRS = [*zip_longest(SURVIVED[:HALF], SURVIVED[HALF:], fillvalue=SURVIVED[0])]


def test_every_kind_is_of_a_pair() -> None:
    assert {kind for pair in PAIRS for kind in pair} == set(SURVIVED)
    assert not [pair for pair in PAIRS if faults.ENDS_A_LIFE.issuperset(pair)]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_they_act_twice_each_and_are_survived(first: str, second: str) -> None:
    """In turn, each on two targets, in one world: whatever comes meets what those before have left."""
    turns = ((2.0, first, 0.1), (4.0, second, 0.1), (6.0, first, 0.9), (8.0, second, 0.9))
    chosen = [Fault(at_s, kind, target, 0.4, 1.5) for at_s, kind, target in turns]
    outcome = run(plan_with(*chosen, seed=3, duration_s=9.5))

    assert outcome.code == OK, describe(outcome)
    assert [(fault.at_s, fault.kind, fault.target) for fault in outcome.injected] == list(turns)
    assert outcome.acked_batches > 50


class OfTables(NamedTuple):
    """Tables of kinds that act in one world, by their numbers, and what it has beside: what they are about."""

    tables: tuple[int, ...]
    settings: Mapping[str, str] = {}
    has: Mapping[str, Any] = {}


WITH_A_MIXED_GROUP = {"mixed_group": "range", "has_static_members": True}
OF_TABLES = (
    *[OfTables((number,)) for number in (0, 1, 4, 5, 6, 7)],
    OfTables((3, 2)),
    OfTables((8, 9, 17), {"replica.fetch.max.bytes": "200"}),
    OfTables((16,)),
    OfTables((10, 11, 12), _of_mixed_groups(3, 2), WITH_A_MIXED_GROUP),
    OfTables((13, 14, 15, 18, 20), _of_transactions(3, 2), {"has_transactions": True}),
    OfTables((19, 21)),
)
# Of those tables some kinds end lives, so that others find nobody; and a static member falls silent only beside two that run.
ENDING_ALL, NEEDS_MORE_MEMBERS = {0, 1}, {"static_member_falls_silent"}


def test_every_table_is_of_a_world() -> None:
    assert sorted(number for world in OF_TABLES for number in world.tables) == [*range(len(TABLES))]


@pytest.mark.parametrize("world", OF_TABLES, ids=["-".join(map(str, world.tables)) for world in OF_TABLES])
def test_what_is_gone_is_passed_over_and_what_goes_meanwhile_ends_no_run(world: OfTables) -> None:
    """Each kind twice: while no broker runs, and just before all of them die, so that it ends with nothing there to be mended."""
    kinds = [kind for number in world.tables for kind in TABLES[number]]
    nobody = [Fault(1.0 + n / 50, kind, 0.3, 0.5, 0.5) for n, kind in enumerate(kinds)]
    dying = [Fault(5.5 + n / 50, kind, 0.3, 0.5, 2.0) for n, kind in enumerate(kinds)]
    plan = replace(
        plan_with(
            Fault(0.5, "kill_all", 0.0, 0.0, 2.5), *nobody, *dying, Fault(6.5, "kill_all", 0.0, 0.0, 2.0)
        ),
        flushes=True,
        has_group=True,
        states={"cleanup.policy": "compact", "segment.bytes": "400", "min.cleanable.dirty.ratio": "0.01"},
        settings={
            "log.segment.bytes": "1500",
            "replica.lag.time.max.ms": "3000",
            "log.cleaner.backoff.ms": "500",
            **_of_groups(3, 2),
            **world.settings,
        },
        duration_s=9.0,
        **world.has,
    )
    outcome = run(plan)

    assert outcome.code == OK, describe(outcome)
    if not ENDING_ALL.intersection(world.tables):
        assert {*kinds} - {fault.kind for fault in outcome.injected} <= NEEDS_MORE_MEMBERS


def test_a_controller_dies_with_what_it_had_decided_undone() -> None:
    """One of its next steps: which, the amount says. Something makes it take steps."""
    died = []
    for amount in (0.0, 0.2, 0.4):
        chosen = Fault(1.0, "kill_controller_between_steps", 0.0, amount, 1.0)
        outcome = run(plan_with(chosen, Fault(1.5, "kill_leader", 0.2, 0.0, 1.5), duration_s=4.0))
        assert outcome.code == OK, describe(outcome)
        died += notes(outcome, " dies at ")

    assert len(died) == 3
    assert any(" 0 writes and 0 requests" not in text for text in died)


def test_control_requests_of_a_former_term_arrive_in_a_later_one() -> None:
    late = Fault(1.0, "late_control_requests", 0.5, 0.8, 3.0)
    outcome = run(
        plan_with(
            late,
            Fault(2.0, "kill_leader", 0.2, 0.0, 1.0),
            Fault(3.8, "kill_controller", 0.0, 0.0, 1.0),
            duration_s=6.0,
        )
    )

    assert outcome.code == OK, describe(outcome)
    assert notes(outcome, "control requests of")


def test_only_whole_frames_of_control_requests_are_taken_from_the_wire() -> None:
    def frame(api_key: int, size: int = 20) -> bytes:
        return size.to_bytes(4, "big") + api_key.to_bytes(2, "big") + bytes(size - 2)

    assert control_frames(frame(4) + frame(1) + frame(6) + frame(5)[:-1]) == [frame(4), frame(6)]
    assert control_frames(b"\0\0\0") == []


def test_a_directory_fails_alone_and_its_broker_goes_on() -> None:
    offline: set[tuple[str, int]] = set()

    def observe(world: World) -> None:
        for broker in world.brokers.values():
            if broker.is_serving and broker.runtime is not None:
                logs = broker.runtime.broker.replicas.logs
                if logs.offline_directories:
                    offline.add((broker.name, len(logs.directories) - len(logs.offline_directories)))

    outcome = run(plan_with(Fault(1.0, "directory_offline", 0.1, 0.9, 6.0), duration_s=8.0), observe=observe)

    assert outcome.code == OK, describe(outcome)
    assert {left for _, left in offline} == {1}


@pytest.mark.parametrize("kind", ["power_cut_unflushed", "torn_tail"])
def test_what_was_not_flushed_is_gone_after_a_power_cut(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any part of it may survive: of what the fault draws the least is taken here, so that none does."""
    written: dict[str, bytes] = {}
    flushed: dict[str, bytes] = {}
    found: dict[str, bytes] = {}
    cut = MemoryDisk.power_cut

    def unlucky(disk: MemoryDisk, choose: Choose) -> MemoryDirectory:
        for _, path, inode in _files(disk, (".log",)):
            written[path] = bytes(inode.data).rstrip(b"\0")
            flushed[path] = bytes(inode.durable).rstrip(b"\0")
        root = cut(disk, lambda count: min(choose(count) for _ in range(100)))
        for _, path, inode in _files(disk, (".log",)):
            found[path] = bytes(inode.data).rstrip(b"\0")
        return root

    monkeypatch.setattr(MemoryDisk, "power_cut", unlucky)
    outcome = run(plan_with(Fault(3.0, kind, 0.0, 0.5, 3.0), duration_s=7.0))

    assert outcome.code == OK, describe(outcome)
    assert any(flushed.values()), "something had been flushed"
    assert written != flushed, "something had not"
    assert {path: found.get(path, b"") for path in flushed} == flushed


def test_a_process_killed_in_the_middle_of_a_callback_writes_nothing_more() -> None:
    """`kill_controller_between_steps` kills inside one: what follows in it reaches neither wire nor disk."""
    written_by_dead: list[str] = []

    def prepare(world: World, history: object) -> None:
        world.network.taps.append(
            lambda transport, data: (
                None if transport.host.is_alive else written_by_dead.append(transport.host.name)
            )
        )

    outcome = run(
        plan_with(
            Fault(1.0, "kill_controller_between_steps", 0.0, 0.0, 1.0),
            Fault(1.5, "kill_leader", 0.2, 0, 1.0),
            duration_s=4.0,
        ),
        prepare=prepare,
    )

    assert notes(outcome, " dies at ")
    assert written_by_dead == []


@pytest.mark.parametrize("kind", sorted(BATCH_KINDS))
def test_a_flipped_bit_is_found_and_the_replica_fetched_anew(kind: str) -> None:
    """Some seeds kill the broker as well, and recovery meets the bit first: mostly in what was not flushed yet."""
    aside = set()

    def observe(world: World) -> None:
        for broker in world.brokers.values():
            aside.update(name for name in broker.disk._top.entries if name.endswith("-stray"))

    for seed in (1, 2, 3, 4):
        plan = plan_with(Fault(2.0, kind, 0.2 * seed, 0.4, 1.0), seed=seed, duration_s=3.5)
        outcome = run(plan, observe=observe)
        assert outcome.code == OK, describe(outcome)
        assert notes(outcome, "flipped, in the batch at offset")

    assert aside


def test_brokers_with_each_others_disks_refuse_to_start_and_have_lost_nothing_afterwards() -> None:
    """Case 23: meta.properties names another broker."""
    served: list[str] = []

    def observe(world: World) -> None:
        swapped = [text for _, text in world.notes if "WrongDirectory" in text]
        back = notes_of(world, "get their own disks back")
        if swapped and not back:
            served.extend(b.name for b in world.brokers.values() if b.is_serving and b.name in "b1 b2")

    outcome = run(plan_with(Fault(3.0, "disks_swapped", 0.1, 0.5, 4.0), duration_s=8.0), observe=observe)

    assert outcome.code == OK, describe(outcome)
    assert len(notes(outcome, "WrongDirectory")) >= 2
    assert served == []


def notes_of(world: World, text: str) -> list[str]:
    return [note for _, note in world.notes if text in note]


def test_a_broker_without_descriptors_hosts_its_replica_once_it_has_some_again() -> None:
    """A partition comes to it meanwhile: its log cannot be made, and is wanted until it can."""
    wanted: set[bool] = set()

    def observe(world: World) -> None:
        for broker in world.brokers.values():
            if broker.is_serving and broker.runtime is not None:
                wanted.add(bool(broker.runtime.broker.replicas.retries.wanted))

    faults_of_all = [Fault(1.0 + n / 100, "descriptors_run_out", 0.3 * n, 0.5, 3.0) for n in range(4)]
    outcome = run(
        plan_with(*faults_of_all, Fault(2.0, "add_partition", 0.1, 0.5, 0.0), duration_s=6.0),
        observe=observe,
    )

    assert outcome.code == OK, describe(outcome)
    assert wanted == {False, True}


def test_a_disk_that_is_full_takes_a_part_of_the_last_write() -> None:
    left: set[int] = set()

    def observe(world: World) -> None:
        for broker in world.brokers.values():
            if (
                broker.disk.capacity_bytes < UNLIMITED and not broker.is_running
            ):  # its only directory is offline
                left.add(broker.disk.capacity_bytes - broker.disk.used_bytes())

    for amount in (0.01, 0.05, 0.4):
        plan = plan_with(Fault(1.0, "disk_full", 0.3, amount, 2.0), duration_s=4.0)
        outcome = run(replace(plan, flushes=True), observe=observe)
        assert outcome.code == OK, describe(outcome)

    assert 0 in left, "the last byte is taken"


def test_an_index_that_is_torn_is_as_long_on_the_platter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut later leaves of it what was found after the tear."""
    disk = MemoryDisk()
    directory = disk.root.make("t-0")
    file = directory.open("0.index", create=True)
    file.append(bytes(range(1, 101)))
    file.sync()
    directory.sync()
    disk.root.sync()
    monkeypatch.setattr(disks, "start_again", lambda *of: None)
    world: Any = SimpleNamespace(note=lambda text: None)
    broker: Any = SimpleNamespace(disks=[disk])
    disks._tear_an_index(world, broker, Fault(0.0, "index_torn", 0.0, 0.7, 1.0))
    disk.power_cut(lambda n: 0)
    assert disk.root.child("t-0").read("0.index") == bytes(range(1, 52))
