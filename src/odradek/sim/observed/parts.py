"""The parts of brokers, for `checkers.parts`: what each says of itself, asked of one broker after the other, one in two looks."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from odradek.broker.fetch_sessions import ParkedFetch
from odradek.broker.organs import Periodic
from odradek.coordinator.consumer_records import MemberState
from odradek.coordinator.group_states import GroupState
from odradek.coordinator.shard import _groups_of
from odradek.coordinator.timers import Kind
from odradek.replication.isr import Committed
from odradek.replication.replica import Replica
from odradek.sim.checkers.parts import Broken
from odradek.sim.observed.beliefs import AtWork, is_awake
from odradek.sim.world import World

UNKNOWN_OFFSET = -1


class Parts:
    """Of one look after another."""

    def __init__(self) -> None:
        self._looks = 0

    def broken(self, world: World, seen: AtWork) -> Iterator[Broken]:
        self._looks += 1
        turn, skip = divmod(self._looks, 2)
        if skip or not seen.brokers:
            return
        number = sorted(seen.brokers)[turn % len(seen.brokers)]
        broker, core = seen.brokers[number]
        now_ms = broker.runtime.now_ms()  # type: ignore[union-attr]
        for part, look in _LOOKS.items():
            for what in look(core, now_ms):
                yield Broken(number, part, what)
        if is_awake(world, broker):
            for part, look_at in _LOOKS_OUTSIDE.items():
                for what in look_at(broker.runtime.parts, world.loop.time()):  # type: ignore[union-attr]
                    yield Broken(number, part, what)
        for partition, replica in core.replicas.partitions.items():
            for what in _of_replica(replica):
                yield Broken(number, "a replica", what, partition)
        has_jumped = broker.name in world.clock_offsets
        for organ in () if has_jumped or broker.is_stopping else core.organs:
            if type(organ) is Periodic and organ._at_ms - now_ms > organ._interval_ms():
                yield Broken(
                    number,
                    "its timer",
                    f"{organ._act} is due in {organ._at_ms - now_ms} ms, after each interval",
                )


def _metadata(core: Any, now_ms: int) -> Iterator[str]:
    known = core.metadata
    if known.names != {topic_id: name for name, topic_id in known.topic_ids.items()}:
        yield f"names by id are {known.names}, and ids by name {known.topic_ids}"
    if not known.topic_ids.keys() <= known.topics.keys():
        yield f"it has ids of {sorted(known.topic_ids)}, and partitions of {sorted(known.topics)}"
    empty = [topic for topic, partitions in known.topics.items() if not partitions]
    if empty:
        yield f"it has topics without a partition: {empty}"


def _sessions(core: Any, now_ms: int) -> Iterator[str]:
    cache = core.fetch_sessions
    waiting = (waiter for bucket in core.purgatory._buckets.values() for waiter in bucket)
    outside = {one.session for one in waiting if isinstance(one, ParkedFetch)}  # those without a session, too
    count = sum(session.counted for session in outside.union(cache._sessions.values()))
    if cache._partitions != count:
        yield f"it counts {cache._partitions} partitions, and there are {count}"
    for session in cache._sessions.values():
        for wanted in session.wanted.values():
            if not wanted.is_watching:
                continue
            replica = wanted.partition
            readers = replica.follower_readers if session.replica_id >= 0 else replica.consumer_readers
            if wanted not in readers:
                yield f"session {session.id} watches {replica.topic_partition}, and is none of its readers"


def _proposals(core: Any, now_ms: int) -> Iterator[str]:
    channel = core.isr_channel
    held = {replica.topic_partition for replica in channel._outbox.proposals}
    for partition, replica in core.replicas.partitions.items():
        if (
            replica.is_leader
            and type(replica.state) is not Committed
            and partition not in channel._waiting
            and partition not in channel._in_flight
            and partition not in channel._retries
            and partition not in held
        ):
            yield f"{partition} proposes {list(replica.state.proposed_isr)}, and nobody asks for it"
    first_ms = min((due_ms for due_ms, _ in channel._retries.values()), default=None)
    if channel.due_ms != first_ms:
        yield f"it is due at {channel.due_ms}, and the first to be asked again at {first_ms}"


def _waiters(core: Any, now_ms: int) -> Iterator[str]:
    purgatory = core.purgatory
    parked = set()
    for number, bucket in purgatory._buckets.items():
        for waiter in bucket:
            parked.add(waiter)
            if waiter.is_done or waiter._bucket != number:
                yield f"a {type(waiter).__name__} stands for {number}, is done: {waiter.is_done}, and says {waiter._bucket}"
            for key in waiter._keys:
                if waiter not in purgatory._watched.get(key, ()):
                    yield f"a {type(waiter).__name__} waits for {key}, and nobody would tell it"
    if any(purgatory._buckets.values()) and not purgatory._bucket_heap:
        yield "somebody waits, and no deadline is known"
    if len(purgatory.ready) != len(set(purgatory.ready)):
        yield "one stands twice in the line of those that were woken"
    for key, watchers in purgatory._watched.items():
        for waiter in watchers:
            if waiter.is_done:
                yield f"a {type(waiter).__name__} is done, and would be told of {key}"


def _organs(core: Any, now_ms: int) -> Iterator[str]:
    organs = core.organs
    if not organs._have_changed:
        first_ms = min((organ.due_ms for organ in organs if organ.due_ms is not None), default=None)
        if organs._earliest_ms != first_ms:
            yield f"the first is due at {first_ms}, and they say {organs._earliest_ms}"


def _unchecked(core: Any, now_ms: int) -> Iterator[str]:
    """What a thread checks at the moment is counted too, and stands nowhere else."""
    books = core.unchecked
    waiting = Counter(batch.topic_partition for batch in books._waiting)
    size_bytes = sum(len(batch.records) for batch in books._waiting)
    if books._bytes < size_bytes or not waiting <= Counter(books.partitions):
        yield f"it counts {books._bytes} bytes of {books.partitions}, and there are {size_bytes} of {dict(waiting)}"
    if books._bytes and not books.partitions:
        yield f"it counts {books._bytes} bytes, and nothing waits"


def _memory(core: Any, now_ms: int) -> Iterator[str]:
    """What coordinators hold counts once, for as long as they coordinate."""
    groups, ids = (
        [one.coordinator for one in shards.shards.values() if one.coordinator is not None and not one.is_over]
        for shards in (core.groups, core.transactions)
    )
    for counted, found in (
        (core.groups.memory, sum(one.shard.held_bytes for one in groups)),
        (core.groups.kept, sum(one.shard.kept_bytes for one in groups)),
        (core.transactions.kept, sum(one.room.kept_bytes for one in ids)),
    ):
        if counted.size_bytes != found:
            yield f"they count {counted.size_bytes} bytes, and hold {found}"


def _groups(core: Any, now_ms: int) -> Iterator[str]:
    for shards in core.groups.shards.values():
        coordinator = shards.coordinator
        if coordinator is None or not shards.partition.is_leader:
            continue
        shard = coordinator.shard
        late = Counter(group_id for append, _ in shard._late.values() for group_id in _groups_of(append))
        if shard.stalled != late:
            yield f"it waits for what came of records of {dict(late)}, and holds up {shard.stalled}"
        if not shard.groups and not shard.consumer_groups:
            continue
        armed: dict[tuple[Kind, str, str], int] = {}
        for timer in shard.timers._heap:
            key = timer.kind, timer.group_id, timer.key
            armed[key] = min(armed.get(key, timer.due_ms), timer.due_ms)
        for what, due_ms in _deadlines(shard):
            at_ms = armed.get(what)
            if due_ms > now_ms and (at_ms is None or at_ms > due_ms):  # what is due may have gone off
                yield f"{what[0].value} of {what[1]} {what[2]} ends at {due_ms}, and its timer goes off at {at_ms}"
        for group in shard.groups.values():
            members = group.members
            if group.leader is not None and group.leader not in members:
                yield f"{group.leader} leads group {group.group_id}, and is none of {list(members)}"
            instances = {
                member.instance_id: member_id
                for member_id, member in members.items()
                if member.instance_id is not None
            }
            if group.static_members != instances:
                yield f"group {group.group_id} has the instances {group.static_members}, and its members {instances}"
            if not group.unsynced <= members.keys():
                yield f"group {group.group_id} waits for {group.unsynced}, and has {list(members)}"
            for member_id, member in members.items():
                if not member.is_parked and member.session_timer_at_ms is None:
                    yield f"{member_id} of group {group.group_id} waits for nothing, and has no session"
            if group.unsynced and group.state is GroupState.PREPARING:
                yield f"group {group.group_id} prepares, and {group.unsynced} were told of its generation"
        for group_id, consumers in shard.consumer_groups.items():
            # A deadline that has passed is gone as long as what comes of it is being written.
            if group_id not in shard.busy and group_id not in shard.stalled and group_id not in shard.waiting:
                yield from _of_consumers(consumers)
        for group_id in shard.waiting:
            if group_id not in shard.busy and group_id not in shard.stalled:
                yield f"somebody waits for a turn of group {group_id}, which has none"


def _of_consumers(group: Any) -> Iterator[str]:
    """Every member has a session, and whoever is to let go of partitions, and nobody else, a time by which it has."""
    letting_go = {member_id for kind, member_id in group.deadlines if kind is Kind.REVOCATION}
    for member_id in group.image.members:
        if (Kind.CONSUMER_SESSION, member_id) not in group.deadlines:
            yield f"{member_id} of group {group.group_id} has no session"
        current = group.image.current_of(member_id)
        is_to_let_go = current.state is MemberState.UNREVOKED_PARTITIONS and bool(current.revoking)
        if is_to_let_go is not (member_id in letting_go):
            yield (
                f"{member_id} of group {group.group_id} is to let go: {is_to_let_go}, and has a time for it: "
                f"{member_id in letting_go}"
            )


def _transactions(core: Any, now_ms: int) -> Iterator[str]:
    for shards in core.transactions.shards.values():
        if shards.coordinator is None:
            continue
        room = shards.coordinator.room
        for name, last_epoch in room.last_epochs.items():
            # Under a new producer id its owner begins with 0.
            stored = room.stored.by_id.get(name)
            if stored is None or stored.epoch not in (last_epoch + 1, 0):
                yield f"its owner is believed to have taken {name} from epoch {last_epoch} to {stored and stored.epoch}"
        waiting = room.waiting
        count = sum(waiter.partitions for waiter in waiting._waiters.values())
        if waiting._partitions != count:
            yield f"it counts {waiting._partitions} partitions of those who wait, and there are {count}"


def _markers(core: Any, now_ms: int) -> Iterator[str]:
    markers = core.markers
    for leader, tasks in markers._waiting.items():
        for task in tasks:
            name = task.marker.transactional_id
            if markers._open.get((task.shard, name), {}).get(task.partition) is not task:
                yield f"the marker of {name} for {task.partition} was given up, and waits for broker {leader}"


def _replicas(core: Any, now_ms: int) -> Iterator[str]:
    """What is kept of a partition goes with it."""
    replicas = core.replicas
    for (_, index), partition in replicas._by_id.items():
        if replicas.partitions.get(partition.topic_partition) is not partition:
            yield f"{partition.topic_partition}, number {index} of its topic, is found by its id, and is not here"
    for throttle in (replicas.leader_throttle, replicas.follower_throttle):
        if not throttle.covered <= replicas.partitions.keys():
            yield f"a throttle covers {throttle.covered - replicas.partitions.keys()}, which are not here"


def _deadlines(shard: Any) -> Iterator[tuple[tuple[Kind, str, str], int]]:
    for name, group in shard.groups.items():
        for member_id, member in group.members.items():
            if member.session_timer_at_ms is not None:
                yield (
                    (Kind.SESSION, name, member_id),
                    max(member.session_ends_at_ms, member.session_timer_at_ms),
                )
        if group.join_ends_at_ms is not None:
            yield (Kind.JOIN, name, ""), group.join_ends_at_ms
        if group.sync_ends_at_ms is not None:
            yield (Kind.SYNC, name, ""), group.sync_ends_at_ms
        for member_id, at_ms in group.pending_ids.items():
            yield (Kind.PENDING_ID, name, member_id), at_ms
    for name, group in shard.consumer_groups.items():
        for (kind, member_id), at_ms in group.deadlines.items():
            yield (kind, name, member_id), at_ms


def _moves(core: Any, now_ms: int) -> Iterator[str]:
    """Copies to other directories: as many are under way as may be, and for each other one there is a time at which it is looked at."""
    moves = core.replicas.moves
    idle = {partition: move for partition, move in moves._moves.items() if move.awaits is None}
    busy = len(moves._moves) - len(idle)
    if busy > moves._at_once:
        yield f"{busy} are under way, and {moves._at_once} may be"
    if idle and busy < moves._at_once and moves.due_ms is None:
        yield f"{list(map(str, idle))} wait, {busy} are under way, and {moves._at_once} may be"
    for partition, move in idle.items():
        if move.holds_flushes:
            yield f"the copy of {partition} is not flushed, and flushes of its log wait for that"


_LOOKS: dict[str, Callable[[Any, int], Iterator[str]]] = {
    "metadata": _metadata,
    "the cache of fetch sessions": _sessions,
    "the ISR channel": _proposals,
    "the purgatory": _waiters,
    "its organs": _organs,
    "what waits to be checked": _unchecked,
    "a coordinator": _groups,
    "a coordinator of transactions": _transactions,
    "its markers": _markers,
    "its replicas": _replicas,
    "its copies": _moves,
    "memory of coordinators": _memory,
}


def _comes_in_time(timer: Any, at_ms: int, due_ms: int, now_s: float) -> bool:
    """`at_ms`: as the part says. One that has gone off is none."""
    return timer is not None and not timer.cancelled() and timer.when() >= now_s and at_ms <= due_ms


def _fetching(parts: Any, now_s: float) -> Iterator[str]:
    """What it waits for is asked on this connection, and for whom it leaves out for a while there is a time at which it asks again."""
    for leader, fetching in parts.fetchers._fetching.items():
        fetcher = fetching.fetcher
        asked = 0 if fetching._connection is None else fetching._unanswered
        if len(fetcher._in_flight) != asked:
            yield f"it waits for {len(fetcher._in_flight)} answers of {leader}, which was asked {asked} times"
        if fetching._connection is None:
            continue
        due_ms = fetching.fetcher.wake_at_ms(0)
        if due_ms is not None and not _comes_in_time(
            fetching._wake_timer, fetching._wake_timer_at_ms, due_ms, now_s
        ):
            yield f"it fetches from {leader} again at {due_ms}, and no timer tells it then"


def _flushes(parts: Any, now_s: float) -> Iterator[str]:
    """A log that is flushed for who waits is not flushed in the background meanwhile."""
    for partition, replica in parts.broker.replicas.partitions.items():
        if replica.log in parts.disk._waited_for and not replica.is_flushing:
            yield f"nobody waits for the flush of {partition}, and it is left to who does"


def _controller(parts: Any, now_s: float) -> Iterator[str]:
    term = parts.controller.term
    if term is None:
        return
    for broker, (_, box) in term._outboxes._boxes.items():
        count = sum(len(request.partitions) for request in box._waiting)
        if box._partitions_waiting != count:
            yield f"it counts {box._partitions_waiting} partitions that wait for broker {broker}, and there are {count}"
    if not term.is_loaded or term._is_closed or term._inbox or term.core.is_writing:
        return
    due_ms = term.core.next_deadline_ms()
    if due_ms is not None and not _comes_in_time(term._tick_timer, term._tick_at_ms, due_ms, now_s):
        yield f"it has something to do at {due_ms}, and no timer tells it then"


def _asking(parts: Any, now_s: float) -> Iterator[str]:
    """Whoever asks the controller waits for the connection, or for the versions that it has."""
    channel = parts.channel
    link = channel._link
    if link is not None and channel._waiting and not link._unsent and not link._in_flight:
        yield f"{len(channel._waiting)} wait, and nothing is asked of controller {channel.controller}"


# Of what is around the hub; of brokers whose loop runs.
_LOOKS_OUTSIDE: dict[str, Callable[[Any, float], Iterator[str]]] = {
    "its fetching": _fetching,
    "its flushes": _flushes,
    "its controller": _controller,
    "its way to the controller": _asking,
}


def _of_replica(replica: Any) -> Iterator[str]:
    log = replica.log
    if log.failure is not None:
        return
    if replica.high_watermark > log.log_end_offset:
        yield f"its high watermark is {replica.high_watermark}, and it ends at {log.log_end_offset}"
    segments = log.segments
    base, end = segments[0].base_offset, log.log_end_offset
    if not base <= log.log_start_offset <= end or log.recovery_point > end:
        yield f"it has files from {base} on, begins at {log.log_start_offset}, is flushed up to {log.recovery_point} and ends at {end}"
    for one, following in pairwise(segments):
        if one.end_offset != following.base_offset:
            yield f"a segment ends at {one.end_offset}, and the next one begins at {following.base_offset}"
    epochs = log.epochs.entries
    for before, after in pairwise(epochs):
        if before.epoch >= after.epoch or before.start_offset >= after.start_offset:
            yield f"epochs do not rise from {before} to {after}"
    if epochs and epochs[-1].start_offset > end:
        yield f"the last epoch begins at {epochs[-1].start_offset}, and it ends at {end}"
    # The first one may begin within the batch that the start is in (seed 80).
    if len(epochs) > 1 and epochs[1].start_offset <= log.log_start_offset:
        yield f"its second epoch begins at {epochs[1].start_offset}, and it begins at {log.log_start_offset}"
    # A log that was begun anew has nothing to flush before records come; and a cut that is being prepared has lowered the point of one
    # that still ends where it did (seed 1467).
    to_be_flushed = max(log.recovery_point, base) < end <= log.flushed.unsynced_cut
    if replica.flushes_before_ack and to_be_flushed and not replica.is_flushing:
        yield f"it ends at {end}, is flushed up to {log.recovery_point}, and no flush is under way"
    if type(replica) is Replica:
        return
    followers = replica._followers
    if not replica.is_leader:
        waiting = [*replica.commit_waiters.waiting(), *replica.flush_waiters.waiting()]
        if waiting:
            yield f"it does not lead, and {len(waiting)} wait for its records to be committed or flushed"
        if followers or replica.followers or replica.leader_epoch_start_offset != UNKNOWN_OFFSET:
            yield f"it does not lead, and knows {list(replica.followers)}, and {replica.leader_epoch_start_offset}"
        return
    assigned = {broker for broker in replica.assignment.replicas if broker != replica.broker}
    if replica.followers.keys() != assigned or followers != tuple(replica.followers.values()):
        yield f"it knows the followers {list(replica.followers)}, and is assigned to {sorted(assigned)}"
    # The end of a flush that is under way answers all of them; another one, in the background, may have come first.
    flushed = [offset for offset, _ in replica.flush_waiters.waiting() if offset <= log.recovery_point]
    if flushed and not replica.is_flushing:
        yield f"it is flushed up to {log.recovery_point}, and who waits for {flushed} has no answer"
    maximal = replica.state.maximal_isr
    counted = [follower.broker for follower in followers if follower.is_in_maximal_isr]
    if replica._followers_in_isr != len(counted) or any(
        (follower.broker in maximal) is not follower.is_in_maximal_isr for follower in followers
    ):
        yield f"it counts {replica._followers_in_isr} followers, {counted}, and its maximal ISR is {maximal}"
    if replica.leader_epoch_start_offset > end:
        yield f"its leader epoch begins at {replica.leader_epoch_start_offset}, and it ends at {end}"
