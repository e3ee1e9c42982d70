"""What one seed will do: settings, workload, and every fault with its time, drawn before anything runs.

The plan is a value, apart from the run: a shrunk plan is the same plan with faults left out. Swarm testing: each
seed draws a subset of the kinds of fault and their intensity; a quarter of its time is free of faults. What
administrators do in the meantime is drawn in the same way, from a generator of its own.
"""

import random
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from odradek.model.features import HIGHEST_LEVELS, TRANSACTION_VERSION
from odradek.model.settings import RACK_AWARE_SELECTOR


class Fault(NamedTuple):
    """`kind` names a function of `faults.injection`; `target` and `amount` are drawn numbers it interprets."""

    at_s: float
    kind: str
    target: float  # in [0, 1): picks a broker, a link, a partition
    amount: float  # in [0, 1): how long, how much
    lasts_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.at_s:8.3f}s {self.kind} target={self.target:.3f} amount={self.amount:.3f} for {self.lasts_s:.2f}s"


# kind -> (number in the fault matrix of docs/simulator.md, weight, shortest and longest duration in seconds)
KINDS: dict[str, tuple[str, int, float, float]] = {
    "kill_leader": ("F1", 4, 0.5, 8.0),
    "kill_controller": ("F2", 4, 0.5, 8.0),
    "kill_all": ("F3", 1, 0.5, 3.0),
    "stop_in_order": ("F4", 3, 1.0, 6.0),
    "pause": ("F5", 3, 0.5, 15.0),
    "cut_leader_from_followers": ("F6", 3, 0.5, 15.0),
    "cut_leader_from_store": ("F7", 3, 0.5, 12.0),
    "cut_controller_from_brokers": ("F8", 3, 0.5, 10.0),
    "cut_one_way": ("F9", 3, 0.5, 12.0),
    "slow_link": ("F10", 3, 0.5, 8.0),
    "resets": ("F10", 2, 0.5, 6.0),
    "bounce": ("F11", 3, 0.0, 0.0),
    "expire_session": ("F12", 2, 0.0, 0.0),
    "late_watches": ("F12", 2, 0.1, 5.0),
    "store_restart": ("F12", 1, 0.1, 4.0),
    "lost_answers": ("F13", 3, 0.5, 6.0),
    "clock_jump": ("F14", 2, 0.0, 0.0),
    "power_cut": ("F15", 3, 0.5, 5.0),
    "power_cut_all": ("F16", 1, 0.5, 3.0),
    "fsync_fails": ("F18", 1, 0.5, 5.0),
    "disk_errors": ("F19", 1, 0.5, 5.0),
    "disk_full": ("F19", 1, 0.5, 5.0),
    "disk_emptied": ("F22", 1, 0.5, 5.0),
}
# Of disks, of wires and of time, in modules of their own (`faults.disks`, `faults.wire`), and drawn by themselves.
FURTHER_KINDS: dict[str, tuple[str, int, float, float]] = {
    "kill_controller_between_steps": ("F2", 4, 0.5, 5.0),
    "pause_controller_between_steps": ("F5", 3, 0.5, 12.0),
    "cut_to_a_ring": ("F9", 2, 0.5, 12.0),
    "swizzle": ("F9", 2, 2.0, 12.0),
    "thin_link": ("F10", 2, 0.5, 6.0),
    "late_control_requests": ("F11", 4, 1.0, 6.0),
    "lost_watches": ("F12", 3, 0.05, 3.0),
    "lost_calls": ("F13", 2, 0.5, 6.0),
    "clock_strobe": ("F14", 1, 0.5, 5.0),
    "power_cut_unflushed": ("F15", 3, 0.5, 5.0),
    "torn_tail": ("F17", 3, 0.5, 5.0),
    "index_bit_flipped": ("F20", 2, 0.5, 5.0),
    "index_misdirected": ("F21", 2, 0.5, 5.0),
    "directory_offline": ("F23", 2, 0.5, 8.0),
    "disks_swapped": ("F22", 1, 0.5, 5.0),
}
# Of clients (`faults.clients`), drawn by themselves too.
CLIENT_KINDS: dict[str, tuple[str, int, float, float]] = {
    "producer_killed": ("F31", 3, 0.1, 4.0),
    "producer_restarts": ("F31", 3, 0.0, 2.0),
    "consumer_killed": ("F31", 2, 0.1, 4.0),
    "clients_reconnect": ("F31", 1, 0.3, 3.0),
}
# Of record batches, drawn by themselves too: they want the logs read again all the time.
BATCH_KINDS: dict[str, tuple[str, int, float, float]] = {
    "batch_bit_flipped_cold": ("F20", 1, 0.5, 5.0),
    "batch_bit_flipped_hot": ("F20", 1, 0.5, 5.0),
}
# Of whole logs (`faults.damage`), in one of thirteen of the seeds in which one copy may be lost. Not where less or more is drawn: of
# the first 128 seeds 97 alone has a cleaner that finds its log cut, and 59 alone fills a disk to its end.
LOG_KINDS: dict[str, tuple[str, int, float, float]] = {
    "log_overwritten": ("F20", 3, 0.5, 5.0),
    "log_cut_short": ("F17", 3, 0.5, 5.0),
}
LOGS_FROM, LOGS_TO = 0.028, 0.106
# Of what does not behave (`faults.rude`), drawn by themselves too. Weight 0: it shows what is not mended yet, or makes a world
# narrower than any is, and is drawn where somebody asks for it (`odradek sim --also`).
RUDE_KINDS: dict[str, tuple[str, int, float, float]] = {
    "late_bytes": ("F10", 3, 0.2, 12.0),
    "late_client_bytes": ("F10", 3, 0.2, 12.0),
    "file_operation_fails": ("F19", 3, 0.5, 6.0),
    "segment_missing": ("F19", 2, 0.5, 6.0),
    "descriptors_run_out": ("F19", 2, 0.5, 6.0),
    "index_torn": ("F21", 1, 0.5, 5.0),
    "loop_hangs": ("F5", 3, 0.3, 14.0),
    "mute_broker": ("F8", 0, 2.0, 14.0),
    "deaf_clients": ("F31", 1, 0.5, 8.0),
    "half_frames": ("F31", 1, 0.5, 12.0),
    "false_control_requests": ("F11", 2, 0.0, 0.0),
    "false_isr_changes": ("F11", 2, 0.0, 0.0),
    "false_followers": ("F11", 2, 0.0, 0.0),
    "hostile_batches": ("F31", 1, 0.0, 0.0),
}
# Of a moment of the protocol (`faults.moments`, `faults.requests`), each drawn by itself.
MOMENT_KINDS: dict[str, tuple[str, int, float, float]] = {
    "lost_leader_and_isr": ("F11", 2, 0.0, 0.0),
    "cut_at_isr_change": ("F6", 2, 0.3, 3.0),
    "late_isr_changes": ("F10", 2, 0.0, 0.0),
    "deposed_with_writes_under_way": ("F12", 2, 0.5, 3.0),
    "leaders_in_turn": ("F1", 3, 0.5, 4.0),
    "elected_again": ("F1", 3, 0.5, 4.0),
    "coordinator_elected_again": ("F1", 3, 0.5, 4.0),
    "lost_requests": ("F11", 3, 0.0, 0.0),
    "dies_when_told": ("F11", 2, 0.5, 4.0),
    "deposed_while_asked": ("F12", 2, 0.5, 3.0),
}
MISSED = ("reassign", "reassign_and_cancel", "recreate_topic", "elect_preferred")
MOMENT_SHARE = 0.2  # of the seeds have each
# What is slow begins early, in a run that is long enough for what follows: several sessions, or a transaction's time-out.
SLOW_FROM_S, LEAST_SLOW_S = 6.0, 12.0
SLOW_SHARE = 1 / 6  # of the seeds with a group of classic members, or with transactions
ALSO: set[str] = set()  # drawn in this process whatever their weight
# One broker may lose what others have, while all others are well: not where one copy may be all there is.
LOSE_ONE = frozenset({"power_cut_unflushed", "torn_tail", *BATCH_KINDS, *LOG_KINDS})
WANT_SCRUBBING = BATCH_KINDS.keys() | LOG_KINDS.keys()
WANT_INDEXES = frozenset({"index_bit_flipped", "index_misdirected", "index_torn"})
# What administrators do (`administration`), in the same terms. Half of the seeds have administrators.
ACTIONS: dict[str, tuple[str, int, float, float]] = {
    "reassign": ("F24", 3, 0.0, 0.0),
    "reassign_and_cancel": ("F24", 3, 0.0, 2.0),
    "recreate_topic": ("F25", 2, 0.0, 1.0),
    "add_partition": ("F26", 1, 0.0, 0.0),
    "elect_preferred": ("F27", 3, 0.0, 0.0),
    "elect_unclean": ("F27", 2, 0.0, 0.0),
    "allow_unclean": ("F27", 1, 0.0, 0.0),
    "delete_records": ("F29", 3, 0.0, 0.0),
    "set_retention": ("F29", 2, 0.0, 0.0),
    "set_min_isr": ("-", 2, 0.0, 0.0),
    "list_offsets": ("-", 1, 0.0, 0.0),
    "depose": ("F12", 0, 0.0, 0.0),
    "leave_laggards": ("F27", 0, 1.0, 4.0),
}
# What operators do beside that (`operations`), each drawn by itself.
OPERATIONS: dict[str, tuple[str, int, float, float]] = {
    "move_log_dir": ("F24", 3, 0.0, 0.0),
    "set_quota": ("-", 1, 1.0, 6.0),
    "look_around": ("-", 2, 0.0, 0.0),
}
# Of seeds with a compacted topic (`faults.cleaner`), each drawn by itself.
CLEANER_KINDS: dict[str, tuple[str, int, float, float]] = {
    "killed_while_cleaning": ("F29", 5, 0.5, 4.0),
    "disk_fails_while_cleaning": ("F29", 2, 0.5, 4.0),
}
# Of seeds with a group of consumers, each drawn by itself.
GROUP_KINDS: dict[str, tuple[str, int, float, float]] = {
    "member_killed": ("F31", 3, 0.1, 4.0),
    "member_paused": ("F31", 3, 0.3, 8.0),
    "members_come_and_go": ("F31", 1, 0.3, 4.0),
    "kill_coordinator": ("F31", 2, 0.5, 5.0),
}
# Of members that take their time, or go without a word while the group waits (`faults.slow_members`): in one of six seeds with a
# group of classic members, each drawn by itself.
SLOW_KINDS: dict[str, tuple[str, int, float, float]] = {
    "leader_shares_late": ("F31", 2, 4.0, 8.0),
    "member_falls_silent": ("F31", 3, 4.0, 8.0),
    "static_member_falls_silent": ("F31", 2, 0.4, 1.0),
}
# Of a group of both protocols.
MIXED_SLOW_KINDS: dict[str, tuple[str, int, float, float]] = {
    "guest_stays": ("F31", 3, 5.0, 7.0),
    "falls_silent_as_guest_goes": ("F31", 2, 0.0, 0.0),
}
# Of seeds with transactions (`faults.transactions`), each drawn by itself.
TRANSACTION_KINDS: dict[str, tuple[str, int, float, float]] = {
    "transactional_producer_killed": ("F28", 3, 0.1, 3.0),
    "transactional_producer_paused": ("F28", 3, 0.3, 6.0),
    "kill_transaction_coordinator": ("F28", 2, 0.5, 4.0),
    "move_transaction_coordinator": ("F28", 2, 0.0, 0.0),
    "slow_coordinator_load": ("F28", 2, 0.5, 4.0),
}
# Of seeds with transactions too, in one of six.
SLOW_TRANSACTION_KINDS: dict[str, tuple[str, int, float, float]] = {
    "transaction_grows": ("F28", 3, 0.0, 0.0),
    "init_is_repeated": ("F28", 3, 0.0, 0.0),
}
# Of what a broker wants for a while, and of what real runs found and no other kind brings about (`faults.wants`, `strangers`): in one
# of six seeds, each drawn by itself.
WANT_KINDS: dict[str, tuple[str, int, float, float]] = {
    "threads_run_out": ("F19", 3, 0.5, 6.0),
    "impossible_addresses": ("F11", 2, 0.0, 0.0),
}
# What operators do in these seeds (`operations`), each drawn by itself.
WANT_OPERATIONS: dict[str, tuple[str, int, float, float]] = {
    "throttle": ("F24", 4, 1.0, 6.0),
    "one_directory_left": ("F23", 1, 1.0, 6.0),
    "two_of_a_name": ("F25", 1, 0.0, 3.0),
    "delete_amid_move": ("F25", 2, 0.5, 2.0),
}
WANT_SHARE = 1 / 6
# Of ids for producers (`faults.requests`), in one of ten seeds that have producers that ask; and of brokers that die but for one, in one of ten.
ASKED_KINDS: dict[str, tuple[str, int, float, float]] = {"lost_allocations": ("F11", 3, 0.0, 0.0)}
SELDOM_KINDS: dict[str, tuple[str, int, float, float]] = {"all_others_die": ("F3", 2, 0.3, 2.0)}
SELDOM_SHARE = 0.1
# Of a coordinator whose appends fail (`faults.moments`), and of what operators do to settings and to offsets: in a quarter of the seeds that
# have a coordinator, or three copies and lose none.
ALONE_KINDS: dict[str, tuple[str, int, float, float]] = {"coordinator_alone": ("F6", 3, 2.0, 6.0)}
LATE_SHARE = 0.25
LATE_OPERATIONS: dict[str, tuple[str, int, float, float]] = {
    "raise_min_isr": ("-", 2, 0.3, 1.5),
    "reset_offsets": ("-", 3, 1.0, 4.0),
}
# Of a release that gives way to the next (`rolling`): in one of eight seeds, once.
RELEASE_KINDS: dict[str, tuple[str, int, float, float]] = {"roll": ("F30", 1, 0.0, 0.0)}
TABLES = (
    KINDS, FURTHER_KINDS, CLIENT_KINDS, BATCH_KINDS, LOG_KINDS, RUDE_KINDS, MOMENT_KINDS, ACTIONS, OPERATIONS, CLEANER_KINDS, GROUP_KINDS,
    SLOW_KINDS, MIXED_SLOW_KINDS, TRANSACTION_KINDS, SLOW_TRANSACTION_KINDS,
    RELEASE_KINDS, WANT_KINDS, WANT_OPERATIONS, ASKED_KINDS, SELDOM_KINDS, ALONE_KINDS, LATE_OPERATIONS,
)  # fmt: skip
ALL_KINDS = frozenset().union(*TABLES)
ADMINISTERED: frozenset[str] = frozenset().union(ACTIONS, OPERATIONS, WANT_OPERATIONS, LATE_OPERATIONS)
# What a seed is about, by the numbers of the fault matrix: `classes_of`.
CLASSES: dict[str, frozenset[str]] = {
    "processes": frozenset({"F1", "F2", "F3", "F4", "F5", "F30"}),
    "links": frozenset({"F6", "F7", "F8", "F9", "F10"}),
    "requests": frozenset({"F11"}),
    "store": frozenset({"F12", "F13"}),
    "clocks": frozenset({"F14"}),
    "disks": frozenset({"F15", "F16", "F17", "F18", "F19", "F20", "F21", "F22", "F23"}),
    "administrators": frozenset({"F24", "F25", "F26", "F27", "F29", "-"}),
    "clients": frozenset({"F31"}),
    "transactions": frozenset({"F28"}),
}
TOPICS = ("orders", "returns", "stock")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMPACTED = "states"  # beside these
ASSIGNORS = ("range", "cooperative-sticky")  # of the classic members of a mixed group: eager, and not
MIXED_PARTITIONS = 3  # more than other seeds have: enough for every member of a mixed group
LEDGER_OWNERS = 3  # processes that have a transactional id (`ledger_workload`)
QUIET_SHARE = 0.25  # of the time of every seed
# What is drawn below is played in this share of its time, faults, the session of a broker and its lag time alike: what happens
# between two faults shows nothing new, and takes most of the events.
PACE = 0.5
SESSION_MS, LAG_MS = 3_000, 5_000
# May lose acknowledged records, with everybody's consent: few seeds, so that most can demand everything.
UNCLEAN = frozenset({"elect_unclean", "allow_unclean", "leave_laggards"})
# Records below the log start are gone because somebody asked for it.
MOVE_THE_LOG_START = frozenset({"delete_records", "set_retention"})
QUOTA_OF_TIME = 2 / 3  # of a quota that is set: from this target on it is one of time
ALONE = frozenset(ALONE_KINDS)
# Who is cut off leaves the ISR soon, and there is time left in which appends fail.
SOON_ALONE = {"replica.lag.time.max.ms": "1000", "replica.fetch.wait.max.ms": "500"}
THROTTLES, LEAVES_ONE_DIRECTORY = frozenset({"throttle"}), frozenset({"one_directory_left"})
TWO_DISKS = frozenset({"directory_offline", "move_log_dir", "one_directory_left", "two_of_a_name"})
SETS_MIN_ISR = frozenset({"set_min_isr", "leave_laggards", "raise_min_isr"})
MOVES_LOGS = frozenset({"move_log_dir"})
# A broker's wall clock is not the others': what a coordinator takes for new may be an hour old for the next.
CLOCKS = frozenset({"clock_jump", "clock_strobe"})
# Lose what was not synced: only acknowledged records that were flushed first are promised to survive these.
NEED_FLUSH = frozenset({"power_cut", "power_cut_all", "fsync_fails", "disk_errors", "disk_full"})
# An emptied disk has lost what was flushed as well: one a seed, while all others are whole, is survived.
SINGLE = frozenset({"disk_emptied"})


def classes_of(kinds: Iterable[str]) -> tuple[str, ...]:
    """Of these kinds of fault, in the order of `CLASSES`."""
    numbers = {table[kind][0] for kind in kinds for table in TABLES if kind in table}
    return tuple(name for name, of_it in CLASSES.items() if not of_it.isdisjoint(numbers))


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    brokers: int
    partitions: int
    replication_factor: int
    min_insync_replicas: int
    producers: int
    acks: int
    is_idempotent: bool
    records_per_batch: int
    pause_between_sends_s: float
    duration_s: float
    flushes: bool
    store_notices_death: bool
    faults: tuple[Fault, ...]
    settings: dict[str, str] = field(default_factory=dict)
    reads_from_replicas: bool = False
    in_flight: int = 1  # requests of a producer to a partition, at most
    leaves_gaps: bool = False  # in its sequences
    codec: str = "none"
    topic_count: int = 1
    has_group: bool = False  # of consumers that commit
    has_static_members: bool = (
        False  # of that group: who takes the place of one that died is the same for it (KIP-345)
    )
    has_sharers: bool = False  # a group of KIP-848
    mixed_group: str = (
        ""  # the assignor of the classic members of a group of both protocols; none: there is none
    )
    has_transactions: bool = False
    # Settings of the topic they write to, if it is compacted.
    ledger: dict[str, str] = field(default_factory=dict)
    # So many of its processes, the first ones, are clients of `transaction.version` 2.
    bumping_owners: int = 0
    # Of `transaction.version`, when the cluster was made: below the highest by the release before this one.
    first_level: int = HIGHEST_LEVELS[TRANSACTION_VERSION]
    fetch_bytes: int = 1 << 20  # of a partition, at most, in one answer to a consumer
    states: dict[str, str] = field(
        default_factory=dict
    )  # settings of the compacted topic; none: there is none

    def has(self, kinds: AbstractSet[str]) -> bool:
        return any(fault.kind in kinds for fault in self.faults)

    @property
    def disks_per_broker(self) -> int:
        """Two where one may fail alone."""
        return 2 if self.has(TWO_DISKS) else 1

    @property
    def requests_kept(self) -> int | None:
        """By a controller for a broker that does not answer. Few where one may be mute: it has to lose what it is told."""
        return 1 if self.has(frozenset({"mute_broker"})) else None

    @property
    def is_administered(self) -> bool:
        return self.has(ADMINISTERED)

    @property
    def has_slow_members(self) -> bool:
        """Of its classic group: their sessions are shorter, and a rebalance may take several of them. Or of one of both protocols."""
        return self.has(SLOW_KINDS.keys() | MIXED_SLOW_KINDS.keys())

    @property
    def topics(self) -> tuple[str, ...]:
        """The first has `partitions`, the others one each."""
        return TOPICS[: self.topic_count]

    @property
    def has_states(self) -> bool:
        return bool(self.states)

    @property
    def forgets_states(self) -> bool:
        """Retention takes the oldest segments of the compacted topic as well."""
        return "delete" in self.states.get("cleanup.policy", "")

    @property
    def all_topics(self) -> tuple[str, ...]:
        return (*self.topics, COMPACTED) if self.has_states else self.topics

    @property
    def is_described(self) -> bool:
        """Whether its brokers are asked at rest what tools ask: that takes a thirtieth of a world."""
        return self.seed % 3 == 0

    @property
    def is_metered(self) -> bool:
        """The steps of each turn are counted, which takes more than twice as long: one seed of fifty."""
        return self.seed % 50 == 0

    @property
    def has_send_buffers(self) -> bool:
        """In one seed of four a broker's kernel takes nothing before the peer has: its answers are held back in its process."""
        return self.seed % 4 != 1

    @property
    def times_requests(self) -> bool:
        """Whether to handle a request takes time: only a quota of time asks how long it took (`operations.set_quota`)."""
        return any(fault.kind == "set_quota" and fault.target >= QUOTA_OF_TIME for fault in self.faults)

    def not_quiet(self, at_s: float) -> float:
        """When that is not in the time that is free of faults: `at_s`, or the end of that time."""
        begin = end = until = 0.0
        for fault in sorted(self.faults):
            if fault.at_s - until > end - begin:
                begin, end = until, fault.at_s
            until = max(until, fault.at_s + fault.lasts_s)
        if self.duration_s - until > end - begin:
            begin, end = until, self.duration_s
        return end if begin <= at_s < end else at_s

    def without(self, faults: set[int]) -> "Plan":
        return replace(self, faults=tuple(f for n, f in enumerate(self.faults) if n not in faults))


def draw(seed: int) -> Plan:
    """The plan of `seed`. Drawn from a generator of its own, so that the run's draws do not change it."""
    rng = random.Random(f"plan-{seed}")
    brokers = rng.choice((3, 3, 3, 4, 5))
    replication_factor = rng.choice((3, 3, 3, 2))
    min_insync_replicas = 2 if replication_factor == 3 else rng.choice((1, 2))
    acks = rng.choice((-1, -1, -1, -1, 1, 0))
    flushes = rng.random() < 0.3
    duration_s = rng.uniform(4.0, 16.0)
    chosen = [kind for kind in KINDS if rng.random() < 0.35]
    if not flushes:
        chosen = [kind for kind in chosen if kind not in NEED_FLUSH]
    if replication_factor < 3 or min_insync_replicas < 2:
        # A single copy may be all there is of an acknowledged record: its disk must not be taken away.
        chosen = [kind for kind in chosen if kind not in SINGLE]
    mean_gap_s = rng.choice((0.6, 1.5, 4.0))
    faults = _one_after_another(rng, KINDS, chosen, rng.uniform(0.2, 1.0), duration_s, mean_gap_s)
    further = _further_faults(
        seed, duration_s, may_lose_one=replication_factor == 3 and min_insync_replicas == 2
    )
    if replication_factor == 3 and min_insync_replicas == 2:
        further += _flips(seed, duration_s) + _damaged_logs(seed, duration_s)
    rude = _by_themselves(RUDE_KINDS, seed, duration_s, 0.4)
    kinds = frozenset(chosen) | {fault.kind for fault in (*further, *rude)}
    actions, settings = _administration(seed, duration_s, kinds)
    if not kinds.isdisjoint(WANT_INDEXES | WANT_SCRUBBING):
        settings.setdefault("log.segment.bytes", "2000")  # an index is written when its segment ends
    settings.update(_impatience(seed))
    faults += _deposals(seed, duration_s)
    if replication_factor == 3 and not kinds & (SINGLE | LOSE_ONE):
        faults += _laggards(seed, duration_s, actions)
    faults += _client_faults(seed, duration_s)
    faults += rude + _while_mute(seed, rude)
    faults += _by_themselves(MOMENT_KINDS, seed, duration_s, MOMENT_SHARE)
    operations = _by_themselves(OPERATIONS, seed, duration_s, 0.15)
    faults += operations
    wants = _wants(seed, duration_s)
    faults += wants
    if any(fault.kind in THROTTLES for fault in wants):
        # Else the first answer brings a follower all that there is, and nothing is left to be held back.
        settings["replica.fetch.max.bytes"] = "200"
    settings.update(_disks(seed, moves=any(fault.kind == "move_log_dir" for fault in operations)))
    settings.update(_records(seed))
    states, of_cleaner = _states(seed)
    settings.update(of_cleaner)
    has_group = random.Random(f"group-{seed}").random() < 0.3
    if has_group:
        settings.update(_of_groups(replication_factor, min_insync_replicas))
    has_sharers = random.Random(f"sharers-{seed}").random() < 0.25
    if has_sharers:
        settings.update(_of_sharers(replication_factor, min_insync_replicas))
    mixed_group = "" if has_group or has_sharers else _mixed_group(seed)
    if has_group or has_sharers or mixed_group:
        faults += _by_themselves(GROUP_KINDS, seed, duration_s, 0.6)
    slow: list[Fault] = []
    if (has_group or mixed_group) and random.Random(f"slow-{seed}").random() < SLOW_SHARE:
        kinds_of_it = MIXED_SLOW_KINDS if mixed_group else SLOW_KINDS
        slow += _by_themselves(kinds_of_it, seed, min(duration_s, SLOW_FROM_S), 0.7)
    has_transactions = random.Random(f"transactions-{seed}").random() < 0.3
    if has_transactions:
        settings.update(_of_transactions(replication_factor, min_insync_replicas))
        faults += _by_themselves(TRANSACTION_KINDS, seed, duration_s, 0.5)
        slow += _by_themselves(SLOW_TRANSACTION_KINDS, seed, min(duration_s, SLOW_FROM_S), SLOW_SHARE)
    if mixed_group:
        settings.update(_of_mixed_groups(replication_factor, min_insync_replicas))
    has_coordinators = has_group or has_sharers or bool(mixed_group) or has_transactions
    if has_coordinators:
        faults += _by_themselves(ALONE_KINDS, seed, duration_s, LATE_SHARE) + _resets(seed, duration_s)
    if {fault.kind for fault in faults} & {"reset_offsets", *ALONE}:
        settings.update(SOON_ALONE)
    if acks == -1 or has_transactions:
        # A broker asks for ids once in its life: when producers begin.
        asked = _by_themselves(ASKED_KINDS, seed, duration_s, SELDOM_SHARE)
        faults += [fault._replace(at_s=0.0) for fault in asked[:1]]
    faults += _by_themselves(SELDOM_KINDS, seed, duration_s, SELDOM_SHARE)
    if replication_factor >= 3 and min_insync_replicas >= 2 and not kinds & (SINGLE | LOSE_ONE):
        raised = {"raise_min_isr": LATE_OPERATIONS["raise_min_isr"]}
        faults += _by_themselves(raised, seed, duration_s, LATE_SHARE)
    settings.update(_flushing(seed))
    rolls, first_level = _release(seed, duration_s)
    faults += rolls + slow
    lasts_s = max(duration_s, LEAST_SLOW_S if slow else 0.0)
    ledger = _ledger(seed) if has_transactions else {}
    if states or ledger:
        faults += _by_themselves(CLEANER_KINDS, seed, duration_s, 0.5)
    settings.setdefault("zookeeper.session.timeout.ms", str(SESSION_MS))
    reads_from_replicas = random.Random(f"readers-{seed}").random() < 0.3
    # Not the tenth below: of the first 128 seeds 64 alone has a broker that disowns its controller's request.
    if reads_from_replicas and 0.1 <= random.Random(f"racks-{seed}").random() < 0.5:
        settings["replica.selector.class"] = RACK_AWARE_SELECTOR
    partitions, producers = rng.choice((1, 1, 2, 3)), rng.choice((1, 2, 3))
    if mixed_group:
        partitions += MIXED_PARTITIONS
    is_idempotent = acks == -1 and rng.random() < 0.9
    return Plan(
        seed=seed,
        brokers=brokers,
        partitions=partitions,
        replication_factor=replication_factor,
        min_insync_replicas=min_insync_replicas,
        producers=producers,
        acks=acks,
        is_idempotent=is_idempotent,
        records_per_batch=rng.choice((1, 1, 3)),
        pause_between_sends_s=rng.choice((0.05, 0.2, 0.5)),
        duration_s=lasts_s * PACE,
        flushes=flushes,
        store_notices_death=rng.random() < 0.5,
        faults=at_pace(with_a_quiet_quarter(seed, lasts_s, [*faults, *further, *actions])),
        settings=settings,
        reads_from_replicas=reads_from_replicas,
        states=states,
        has_group=has_group,
        has_static_members=bool(has_group or mixed_group)
        and random.Random(f"static-{seed}").random() < 1 / 3,
        has_sharers=has_sharers,
        mixed_group=mixed_group,
        has_transactions=has_transactions,
        first_level=first_level,
        bumping_owners=_bumping_owners(seed) if has_transactions else 0,
        ledger=ledger,
        fetch_bytes=random.Random(f"fetches-{seed}").choice((1 << 20,) * 3 + (250,)),
        **_producers(seed, is_idempotent=is_idempotent),
    )


def _states(seed: int) -> tuple[dict[str, str], dict[str, str]]:
    """Settings of the compacted topic and of the cleaner. Two seeds of five have the topic, with segments of a few batches; one
    of six of those keeps nothing for longer than seconds, and one of six cleans with a map of a handful of keys."""
    rng = random.Random(f"states-{seed}")
    if rng.random() >= 0.4:
        return {}, {}
    topic = {
        "cleanup.policy": "compact",
        "segment.bytes": str(rng.choice((400, 1_000, 3_000))),
        "min.cleanable.dirty.ratio": rng.choice(("0.01", "0.3", "0.6")),
        "delete.retention.ms": str(rng.choice((0, 500, 3_000))),
    }
    if rng.random() < 1 / 6:
        topic |= {"cleanup.policy": "compact,delete", "retention.ms": str(rng.choice((1_000, 4_000)))}
    if rng.random() < 0.25:
        topic["min.compaction.lag.ms"] = str(rng.choice((300, 2_000)))
    if rng.random() < 0.25:
        topic["max.compaction.lag.ms"] = str(rng.choice((2_500, 5_000)))
    cleaner = {"log.cleaner.backoff.ms": str(rng.choice((500, 1_000, 2_000)))}
    if rng.random() < 1 / 6:
        cleaner["log.cleaner.dedupe.buffer.size"] = str(rng.choice((120, 200)))
    if rng.random() < 0.25:
        cleaner["log.cleaner.io.max.bytes.per.second"] = "4000"
    if "delete" in topic["cleanup.policy"]:
        cleaner["log.retention.check.interval.ms"] = "500"
    return topic, cleaner


def _of_groups(replication_factor: int, min_insync_replicas: int) -> dict[str, str]:
    """Their offsets are as safe as the records of the seed's topics, and are compacted within seconds."""
    return {
        "offsets.topic.replication.factor": str(replication_factor),
        "offsets.topic.segment.bytes": "1000",
        "min.insync.replicas": str(min_insync_replicas),
        "group.initial.rebalance.delay.ms": "200",
        "group.min.session.timeout.ms": "1000",
        "log.cleaner.backoff.ms": "1000",
    }


def _of_sharers(replication_factor: int, min_insync_replicas: int) -> dict[str, str]:
    """Their sessions are as short as those of the classic group."""
    return {
        **_of_groups(replication_factor, min_insync_replicas),
        "group.coordinator.rebalance.protocols": "classic,consumer",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": "2000",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "300",
    }


def _of_mixed_groups(replication_factor: int, min_insync_replicas: int) -> dict[str, str]:
    """A conversion is one batch of several records of each member, and has to fit a segment."""
    of_sharers = _of_sharers(replication_factor, min_insync_replicas)
    return {**of_sharers, "offsets.topic.segment.bytes": "5000"}


def _mixed_group(seed: int) -> str:
    """In a quarter of the seeds that have no other group."""
    rng = random.Random(f"mixed-{seed}")
    return rng.choice(ASSIGNORS) if rng.random() < 0.25 else ""


def _of_transactions(replication_factor: int, min_insync_replicas: int) -> dict[str, str]:
    """As safe as the others; what is open for too long is looked for twice a second."""
    return {
        **_of_groups(replication_factor, min_insync_replicas),
        "transaction.state.log.replication.factor": str(replication_factor),
        "transaction.state.log.min.isr": str(min_insync_replicas),
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.segment.bytes": "2000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }


def _ledger(seed: int) -> dict[str, str]:
    """One of three is compacted. Every record has a key of its own, so what is read under read_committed stays."""
    rng = random.Random(f"ledger-{seed}")
    if rng.random() >= 1 / 3:
        return {}
    return {
        "cleanup.policy": "compact",
        "segment.bytes": str(rng.choice((400, 1_000, 3_000))),
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": str(rng.choice((0, 500, 3_000))),
    }


def _release(seed: int, duration_s: float) -> tuple[list[Fault], int]:
    """In one of eight seeds all brokers are rolled; two of three of these were made by the release before."""
    rng = random.Random(f"release-{seed}")
    highest = HIGHEST_LEVELS[TRANSACTION_VERSION]
    if rng.random() >= 1 / 8:
        return [], highest
    return [Fault(rng.uniform(0.2, 0.6 * duration_s), "roll", 0.0, 0.0)], rng.choice(
        (0, highest - 1, highest)
    )


def _bumping_owners(seed: int) -> int:
    """Of transactional ids. In half of the seeds that have them somebody is: all of them, or one of the two that have an id in
    turns, so that it is ended in both ways."""
    return random.Random(f"bumping-{seed}").choice((0, 0, 0, 1, LEDGER_OWNERS, LEDGER_OWNERS))


def _producers(seed: int, *, is_idempotent: bool) -> dict[str, Any]:
    """Two of five of those with idempotent producers have five requests in flight; two of five compress, and as many have
    several topics."""
    rng = random.Random(f"producers-{seed}")
    has_several = rng.random() < 0.4 and is_idempotent
    return {
        "in_flight": 5 if has_several else 1,
        "leaves_gaps": rng.random() < 0.5 and has_several,
        "codec": rng.choice(("none",) * 5 + CODECS),
        "topic_count": rng.choice((1, 1, 1, 2, 3)),
    }


def with_a_quiet_quarter(seed: int, duration_s: float, faults: list[Fault]) -> tuple[Fault, ...]:
    """In order, and a quarter of the time, in one piece, without any.

    The faults move together to make room for it, and what would last into it ends where it begins.
    """
    quiet_s = QUIET_SHARE * duration_s
    begin = random.Random(f"quiet-{seed}").uniform(0.0, duration_s - quiet_s)
    moved = []
    for fault in sorted(faults):
        at_s = fault.at_s * (1 - QUIET_SHARE)
        if at_s < begin:
            moved.append(fault._replace(at_s=at_s, lasts_s=min(fault.lasts_s, begin - at_s)))
        else:
            moved.append(fault._replace(at_s=at_s + quiet_s))
    return tuple(moved)


def at_pace(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    return tuple(f._replace(at_s=f.at_s * PACE, lasts_s=f.lasts_s * PACE) for f in faults)


def _impatience(seed: int) -> dict[str, str]:
    """In half of the seeds a follower that lags leaves the ISR after a second or three, in the others after five; with the usual
    thirty that needs a fault that outlasts every run. One seed of ten has a leader remember one fetch session, so that followers
    take it from each other. What a follower waits for news at most is drawn too, up to half of the time after which it lags. In one
    of three seeds a fetch brings it some batches at most, so that it is behind in the midst of what it lacks."""
    rng = random.Random(f"impatience-{seed}")
    lag_ms = rng.choice((1_000, 1_500, 3_000)) if rng.random() < 0.5 else LAG_MS
    wait_ms = random.Random(f"fetch-wait-{seed}").choice((500, 1_000, 2_000))
    settings = {
        "replica.lag.time.max.ms": str(lag_ms),
        "replica.fetch.wait.max.ms": str(min(wait_ms, lag_ms // 2)),
    }
    if rng.random() < 0.1:
        settings["max.incremental.fetch.session.cache.slots"] = "1"
    bytes_rng = random.Random(f"fetch-bytes-{seed}")
    if bytes_rng.random() < 1 / 3:
        settings["replica.fetch.max.bytes"] = str(bytes_rng.choice((200, 500, 2_000)))
    return settings


def _deposals(seed: int, duration_s: float) -> list[Fault]:
    """Somebody removes the controller's node, as those do who want another one: in one seed of ten."""
    rng = random.Random(f"deposals-{seed}")
    if rng.random() >= 0.1:
        return []
    return [Fault(rng.uniform(0.2, duration_s), "depose", 0.0, 0.0) for _ in range(rng.choice((1, 1, 2)))]


def _laggards(seed: int, duration_s: float, actions: list[Fault]) -> list[Fault]:
    """Once, in every seed whose records may be lost with everybody's consent anyway."""
    if UNCLEAN.isdisjoint(action.kind for action in actions):
        return []
    rng = random.Random(f"laggards-{seed}")
    at_s, lasts_s = rng.uniform(0.5, 0.5 * duration_s), rng.uniform(1.0, 4.0)
    return [Fault(at_s, "leave_laggards", rng.random(), rng.random(), lasts_s)]


def _client_faults(seed: int, duration_s: float) -> list[Fault]:
    """In a quarter of the seeds, beside whatever else there is."""
    rng = random.Random(f"clients-{seed}")
    if rng.random() >= 0.25:
        return []
    chosen = [kind for kind in CLIENT_KINDS if rng.random() < 0.6]
    mean_gap_s = rng.choice((0.5, 1.5, 4.0))
    return _one_after_another(rng, CLIENT_KINDS, chosen, rng.uniform(0.2, 2.0), duration_s, mean_gap_s)


def _records(seed: int) -> dict[str, str]:
    """What brokers do with the records themselves: one seed of three has something of it."""
    rng = random.Random(f"records-{seed}")
    if rng.random() >= 0.33:
        return {}
    name, value = rng.choice(
        (
            ("odradek.log.record.validation", "full"),
            ("log.message.timestamp.type", "LogAppendTime"),
            ("compression.type", rng.choice(("gzip", "lz4", "zstd", "uncompressed"))),
            ("odradek.log.scrub.bytes.per.second", "100000"),
        )
    )
    return {name: value}


def _disks(seed: int, *, moves: bool) -> dict[str, str]:
    """One seed of four has segments of a few batches. In two of three of those with `moves` a replica takes seconds to move, so
    that others come in between; in half of them brokers copy one at a time."""
    rng = random.Random(f"disks-{seed}")
    settings = {}
    if rng.random() < 0.25:
        settings["log.segment.bytes"] = str(rng.choice((300, 600, 1_500)))
    if rng.random() < 2 / 3 and moves:
        settings["replica.alter.log.dirs.io.max.bytes.per.second"] = str(rng.choice((1_000, 3_000)))
    if rng.random() < 0.5 and moves:
        settings["num.replica.alter.log.dirs.threads"] = "1"
    return settings


def _flushing(seed: int) -> dict[str, str]:
    """One seed of ten flushes by time, which nobody waits for."""
    rng = random.Random(f"flushing-{seed}")
    return {"log.flush.interval.ms": str(rng.choice((200, 2_500)))} if rng.random() < SELDOM_SHARE else {}


def _one_after_another(
    rng: random.Random,
    kinds: Mapping[str, tuple[str, int, float, float]],
    chosen: Iterable[str],
    now: float,
    duration_s: float,
    mean_gap_s: float,
) -> list[Fault]:
    """From `now` on, each of those that are chosen as often as its weight has it; one that is `SINGLE` strikes once."""
    faults: list[Fault] = []
    left = list(chosen)
    while now < duration_s and left:
        kind = rng.choices(left, [kinds[k][1] for k in left])[0]
        if kind in SINGLE:
            left.remove(kind)
        _, _, shortest, longest = kinds[kind]
        faults.append(Fault(now, kind, rng.random(), rng.random(), rng.uniform(shortest, longest)))
        now += rng.expovariate(1 / mean_gap_s)
    return faults


def _by_themselves(
    kinds: dict[str, tuple[str, int, float, float]], seed: int, duration_s: float, share: float
) -> list[Fault]:
    """Each in this share of the seeds, beside whatever else there is. Of each kind by itself, so that another one, or another
    weight, shifts no draw of the others; the weight is how many there are in ten seconds, in the worst of seeds."""
    faults: list[Fault] = []
    for kind, (_, weight, shortest, longest) in kinds.items():
        rng = random.Random(f"{kind}-{seed}")
        if rng.random() >= share:
            continue
        rate = rng.uniform(0.2, 1.0) * (max(weight, 5) if kind in ALSO else weight) / 10
        now = 0.0
        while rate:
            now += rng.expovariate(rate)
            if now >= duration_s:
                break
            faults.append(Fault(now, kind, rng.random(), rng.random(), rng.uniform(shortest, longest)))
    return faults


def _while_mute(seed: int, rude: Iterable[Fault]) -> list[Fault]:
    """A broker that answers its controller nothing misses what happens meanwhile: much does."""
    rng = random.Random(f"while-mute-{seed}")
    return [
        Fault(
            mute.at_s + rng.random() * mute.lasts_s,
            rng.choice(MISSED),
            rng.random(),
            rng.random(),
            rng.random(),
        )
        for mute in rude
        if mute.kind == "mute_broker"
        for _ in range(8)
    ]


def _wants(seed: int, duration_s: float) -> list[Fault]:
    if random.Random(f"wants-{seed}").random() >= WANT_SHARE:
        return []
    return [
        *_by_themselves(WANT_KINDS, seed, duration_s, 0.6),
        *_by_themselves(WANT_OPERATIONS, seed, duration_s, 0.6),
    ]


def _resets(seed: int, duration_s: float) -> list[Fault]:
    """Once, and early: a coordinator that is alone takes its time."""
    rng = random.Random(f"reset-{seed}")
    if rng.random() >= LATE_SHARE:
        return []
    _, _, shortest, longest = LATE_OPERATIONS["reset_offsets"]
    at_s, lasts_s = rng.uniform(0.5, 0.5 * duration_s), rng.uniform(shortest, longest)
    return [Fault(at_s, "reset_offsets", rng.random(), rng.random(), lasts_s)]


def _flips(seed: int, duration_s: float) -> list[Fault]:
    """In one of six of the seeds in which one copy may be lost."""
    rng = random.Random(f"flips-{seed}")
    if rng.random() >= 1 / 6:
        return []
    return [
        Fault(rng.uniform(1.0, duration_s), kind, rng.random(), rng.random(), rng.uniform(0.5, 5.0))
        for kind in rng.choices(sorted(BATCH_KINDS), k=rng.choice((1, 2, 4)))
    ]


def _damaged_logs(seed: int, duration_s: float) -> list[Fault]:
    if not LOGS_FROM <= random.Random(f"logs-{seed}").random() < LOGS_TO:
        return []
    return _by_themselves(LOG_KINDS, seed, duration_s, 1.0)


def _further_faults(seed: int, duration_s: float, *, may_lose_one: bool) -> list[Fault]:
    """In a third of the seeds, beside whatever else there is."""
    rng = random.Random(f"further-{seed}")
    if rng.random() < 0.65:
        return []
    chosen = [
        kind for kind in FURTHER_KINDS if rng.random() < 0.35 and (may_lose_one or kind not in LOSE_ONE)
    ]
    mean_gap_s = rng.choice((0.8, 2.0, 4.0))
    return _one_after_another(rng, FURTHER_KINDS, chosen, rng.uniform(0.2, 2.0), duration_s, mean_gap_s)


def _administration(
    seed: int, duration_s: float, faults: frozenset[str]
) -> tuple[list[Fault], dict[str, str]]:
    """Actions, and settings with which they can do something in a few seconds."""
    rng = random.Random(f"administration-{seed}")
    if rng.random() < 0.5:
        return [], {}
    chosen = [
        kind for kind in ACTIONS if ACTIONS[kind][1] and rng.random() < (0.15 if kind in UNCLEAN else 0.4)
    ]
    if faults & (SINGLE | LOSE_ONE) and "set_min_isr" in chosen:
        # With a single copy allowed, the disk of that copy must not be taken away.
        chosen.remove("set_min_isr")
    settings = {}
    if rng.random() < 0.3:
        settings["leader.imbalance.check.interval.seconds"] = str(rng.choice((1, 2, 5)))
    if not MOVE_THE_LOG_START.isdisjoint(chosen):
        settings["log.segment.bytes"] = str(rng.choice((300, 1_000, 65_536)))
        settings["log.retention.check.interval.ms"] = str(rng.choice((500, 2_000)))
    mean_gap_s = rng.choice((0.7, 2.0, 5.0))
    actions = _one_after_another(rng, ACTIONS, chosen, rng.uniform(0.2, 2.0), duration_s, mean_gap_s)
    return actions, settings
