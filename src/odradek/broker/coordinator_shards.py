"""The coordinators of this broker for one internal topic: one for each of its partitions that the broker leads.

A coordinator decides (`coordinator.group_coordinator`, `coordinator.transaction_coordinator`); here its records are
appended with acks=all and its answers sent, and it is loaded when the broker begins to lead the partition and dropped
when it ceases to. What it is told by the log comes at the end of a turn, as every acknowledgement does.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from odradek.broker.aside import Aside
from odradek.broker.coordinator_load import Load
from odradek.broker.effects import Effect, LogLine
from odradek.broker.id_generator import IdGenerator
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.organs import Organ, RoleChange
from odradek.broker.replica_manager import ReplicaManager
from odradek.broker.slices import Piece, Slices, trace
from odradek.coordinator.append_errors import UNDECIDED
from odradek.coordinator.events import AppendFailed, Asked, Committed, Tick, Unloaded
from odradek.coordinator.later import Later, Make
from odradek.coordinator.member import Client
from odradek.coordinator.partitioning import partition_of
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicPartition
from odradek.model.settings import BrokerSettings
from odradek.protocol.schema import Request, Response
from odradek.records.builder import NewRecord, build_batch
from odradek.replication.partition import Partition
from odradek.replication.purgatory import Purgatory
from odradek.replication.waiting import AckWaiter

ACKS_ALL = -1
# While the end of what was loaded is not committed yet.
COMMIT_POLL_MS = 10
LOAD_AGAIN_MS = 1_000
# Answers of one step that are given in its turn, a millisecond with their sockets; then so many at a time.
MOST_ANSWERS, ANSWERS_OF_A_SLICE = 100, 10
# Rows of records that are appended in the turn that made them, some three milliseconds; more have a turn of their own. So has what
# follows from them where that is more in all: without followers an append is committed at once, and the next piece follows.
MOST_ROWS = 1_000
# Rows of memory that go with their coordinator at once, some ten milliseconds; of more so many in a slice.
MOST_FORGOTTEN, FORGOTTEN_OF_A_SLICE = 10_000, 500
# Of those that are due at once: so many are told the time in one turn, and fewer where that makes them append so much.
TICKS_AT_ONCE, APPENDS_AT_ONCE = 8, 100
# Told a `Response`; of what describes many, a `Later`.
Done = Callable[[Any], None]


class Coordinator(Protocol):
    """Decides for one partition. What `step` gives has `appends`, `answers` and `lines`, as `coordinator.effects` says."""

    def step(self, event: Any, now_ms: int) -> Any: ...

    def next_deadline_ms(self) -> int | None: ...

    def limit_appends(self, most_bytes: int) -> None: ...

    def tables(self) -> list[dict[Any, Any]]: ...

    @property
    def size(self) -> int: ...


C = TypeVar("C", bound=Coordinator)


class TopicSizes(Mapping[str, int]):
    """How many partitions each topic has, as this broker was told."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    def __getitem__(self, topic: str) -> int:
        return len(self._metadata.topics[topic])

    def __iter__(self) -> Iterator[str]:
        return iter(self._metadata.topics)

    def __len__(self) -> int:
        return len(self._metadata.topics)


class Shard(Generic[C]):
    """One partition that is led. `coordinator` None: it is being loaded."""

    def __init__(self, partition: Partition, load: Load) -> None:
        self.partition = partition
        self.epoch: int = partition.leader_epoch
        self.load = load
        self.coordinator: C | None = None
        self.most_bytes = 0  # of a batch, as the coordinator was told; 0: not yet
        self.untold: list[Any] = []  # events that came while it was loaded
        self.is_made_aside = False  # all is read, and a thread makes the coordinator of it
        self.due_ms: int | None = None
        self.is_over = False
        self.distrusted_ms: int | None = None  # when the one before it was given up for a mistake of ours
        # Appends that wait for a turn of their own, and those behind them: they go to the log in the order of their ids.
        self.appends: deque[Any] = deque()
        self.encoded: list[tuple[bytes, bytes | None]] = []  # what is encoded of the first of them

    def continues(self, partition: Partition | None) -> bool:
        """Whether this broker has led the partition all the time. In an epoch between another might have."""
        return (
            partition is self.partition
            and partition.is_leader
            and self.epoch <= partition.leader_epoch <= self.epoch + 1
        )


class Making(Generic[C]):
    """Work: the coordinator, and what it coordinates; or what went wrong."""

    def __init__(
        self, coordinator_of: Callable[[Shard[C], int], tuple[C, str]], shard: Shard[C], now_ms: int
    ) -> None:
        self._coordinator_of = coordinator_of
        self._shard = shard
        self._now_ms = now_ms

    def run(self) -> tuple[C, str] | str:
        try:
            return self._coordinator_of(self._shard, self._now_ms)
        except Exception:  # ours
            return trace()


class Call(NamedTuple):
    shard: Shard[Any]
    request: Request
    version: int
    done: Done


class AppendWait(AckWaiter):
    """Records that are in the log and not committed yet. `is_told`: whoever waits heard that this is `UNDECIDED`."""

    __slots__ = (
        "append_id",
        "base_offset",
        "error",
        "is_settled",
        "is_told",
        "owner",
        "required_offset",
        "shard",
    )

    def __init__(
        self,
        owner: "CoordinatorShards[Any]",
        shard: Shard[Any],
        append_id: int,
        base_offset: int,
        required_offset: int,
        *,
        is_told: bool = False,
    ) -> None:
        super().__init__()
        self.is_told = is_told
        self.owner = owner
        self.shard = shard
        self.append_id = append_id
        self.base_offset = base_offset
        self.required_offset = required_offset
        self.error = ErrorCode.NONE
        self.is_settled = False

    def complete(self, slot: int, error: ErrorCode) -> None:
        self.error = error
        self.is_settled = True
        self.owner.purgatory.wake(self)

    def is_over(self, now_ms: int) -> bool:
        return self.is_settled

    def finish(self, now_ms: int, *, is_late: bool) -> None:
        if is_late:
            self.shard.partition.forget_expired_waiters()
            self.owner.undecided(self, ErrorCode.REQUEST_TIMED_OUT, now_ms)
        elif self.error in UNDECIDED:
            self.owner.undecided(self, self.error, now_ms)
        else:
            self.owner.settled(self, now_ms)


class CoordinatorShards(Organ, Generic[C]):
    """`topic`: whose partitions these are. A kind of coordinator says how it is loaded and made, what its records are
    in bytes, and what its clients hear where there is none."""

    topic: str

    def __init__(
        self,
        *,
        settings: Callable[[], BrokerSettings],
        replicas: ReplicaManager,
        metadata: MetadataCache,
        purgatory: Purgatory,
        aside: Aside,
        slices: Slices,
        ids: IdGenerator,
        effects: list[Effect],
    ) -> None:
        self.purgatory = purgatory
        self.shards: dict[int, Shard[C]] = {}
        self.due_ms = None
        self._settings = settings
        self._replicas = replicas
        self._metadata = metadata
        self.aside = aside
        self._slices = slices
        self._ids = ids
        self._effects = effects
        self._calls: dict[int, Call] = {}
        self._call_count = 0
        self._appended = 0  # since the last `tick`
        self._events: deque[tuple[Shard[C], Any]] = deque()
        self._is_stepping = False
        self._rows_of_steps = 0  # appended in steps that follow from one event

    # -------------------------------------------------------------------------------------------- of each kind

    def _new_load(self, partition: Partition) -> Load:
        raise NotImplementedError

    def _coordinator_of(self, shard: Shard[C], now_ms: int) -> tuple[C, str]:
        """Of a partition that is read to its end; and what it coordinates, for the log. Of a large one a thread calls this."""
        raise NotImplementedError

    def _is_large(self, shard: Shard[C]) -> bool:
        """Whether to make its coordinator takes longer than a turn may."""
        return False

    def _encoded(self, record: Any) -> tuple[bytes, bytes | None]:
        raise NotImplementedError

    def _rows(self, append: Any) -> int:
        """How much there is to encode: records, or rows in them."""
        raise NotImplementedError

    def _refused(self, request: Request, version: int, error: ErrorCode) -> Response:
        raise NotImplementedError

    def _append_timeout_ms(self) -> int:
        raise NotImplementedError

    def _stepped(self, shard: Shard[C], effects: Any, now_ms: int) -> None:
        """What is wanted beside appends and answers."""

    # -------------------------------------------------------------------------------------------- for handlers

    @property
    def partitions(self) -> int:
        """Of the topic; 0: it is not there."""
        return len(self._metadata.topics.get(self.topic, ()))

    @property
    def size(self) -> int:
        """Of all that are coordinated here: groups and members, or transactional ids."""
        return sum(one.coordinator.size for one in self.shards.values() if one.coordinator is not None)

    def index_of(self, name: str) -> int:
        return partition_of(name, self.partitions) if self.partitions else -1

    def ask(
        self, index: int, request: Request, version: int, client: Client, done: Done, now_ms: int
    ) -> None:
        """`done` is called once with the answer, now or later; `index`: of the partition that coordinates."""
        shard = self.shards.get(index)
        if index < 0:
            return done(self._refused(request, version, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        if shard is None:
            return done(self._refused(request, version, ErrorCode.NOT_COORDINATOR))
        if shard.coordinator is None or shard.is_over:
            return done(self._refused(request, version, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        self._call_count += 1
        self._calls[self._call_count] = Call(shard, request, version, done)
        unique = self._ids.topic_id().hex()
        dashed = "-".join((unique[:8], unique[8:12], unique[12:16], unique[16:20], unique[20:]))
        self._tell(shard, Asked(self._call_count, version, client, request, dashed), now_ms)
        return None

    # ---------------------------------------------------------------------------------------------- led, not led

    def roles_changed(self, changes: Sequence[RoleChange], now_ms: int) -> None:
        for change in changes:
            topic, index = change.partition
            if topic != self.topic:
                continue
            shard = self.shards.get(index)
            partition = self._replicas.partitions.get(change.partition) if change.leads else None
            if shard is not None:
                if shard.continues(partition):
                    shard.epoch = shard.partition.leader_epoch
                    continue
                self._unload(index, now_ms)
            if partition is not None and partition.is_leader:
                self._begin_load(index, partition, now_ms)

    def _begin_load(self, index: int, partition: Partition, now_ms: int) -> None:
        shard = self.shards[index] = Shard[C](partition, self._new_load(partition))
        self._load_on(index, shard, now_ms)

    def _load_on(self, index: int, shard: Shard[C], now_ms: int) -> None:
        """The next piece, in a thread: what takes long holds up nobody here."""

        def ended(next_offset: int | None, later_ms: int) -> None:
            if shard.is_over:
                return
            if not shard.load.has_read(next_offset):
                self._effects.append(
                    LogLine("warning", f"{self._name(index)}: {shard.load.problem}; loaded again soon")
                )
                self._arm(shard, later_ms + LOAD_AGAIN_MS)
                shard.load = self._new_load(shard.partition)
            elif shard.load.is_at_the_end:
                self._start(index, shard, later_ms)
            else:
                self._load_on(index, shard, later_ms)

        self.aside.ask(
            self.aside.lookups, lambda: None if shard.is_over else shard.load.next_piece(), ended, now_ms
        )

    def _start(self, index: int, shard: Shard[C], now_ms: int) -> None:
        """All is read. What is not committed may still go, so nothing is told before it is."""
        if shard.partition.high_watermark < shard.load.offset:
            return self._arm(shard, now_ms + COMMIT_POLL_MS)
        loaded = shard.load.loaded
        for problem in loaded.problems:
            self._effects.append(
                LogLine("warning", f"{self._name(index)}: left out while loading: {problem}")
            )
        if not self._is_large(shard):
            return self._made(index, shard, Making(self._coordinator_of, shard, now_ms).run(), now_ms)
        shard.is_made_aside = True
        self._arm(shard, None)

        def ended(made: tuple[C, str] | str | None, later_ms: int) -> None:
            shard.is_made_aside = False
            if shard.is_over:
                return
            if made is None:
                self._arm(shard, later_ms + LOAD_AGAIN_MS)
            else:
                self._made(index, shard, made, later_ms)

        # Sessions begin when its turn has come: it may have waited behind others.
        def begin() -> Making[C] | None:
            return None if shard.is_over else Making(self._coordinator_of, shard, self.aside.now_ms)

        return self.aside.ask(self.aside.lookups, begin, ended, now_ms)

    def _made(self, index: int, shard: Shard[C], made: tuple[C, str] | str, now_ms: int) -> None:
        if isinstance(made, str):
            said = f"{self._name(index)}: a mistake of ours, so it is loaded again soon:\n{made}"
            self._effects.append(LogLine("error", said))
            shard.load.problem = "no coordinator could be made"  # should there be no memory for another load
            self._arm(shard, now_ms + LOAD_AGAIN_MS)
            shard.load = self._new_load(shard.partition)
            return
        shard.coordinator, coordinates = made
        said = (
            f"{self._name(index)}: coordinates {coordinates}, {shard.load.loaded.records} records were read"
        )
        self._effects.append(LogLine("info", said))
        for event in (*shard.untold, Tick()):
            self._tell(shard, event, now_ms)
        shard.untold.clear()

    def _unload(self, index: int, now_ms: int) -> None:
        shard = self.shards.pop(index)
        try:
            if shard.coordinator is not None and not shard.is_over:
                self._tell(shard, Unloaded(), now_ms)
        finally:
            self._end(shard)

    def _end(self, shard: Shard[C]) -> None:
        shard.is_over = True
        try:
            self._arm(shard, None)
            for number in [number for number, call in self._calls.items() if call.shard is shard]:
                call = self._calls.pop(number)
                refused = partial(self._refused, call.request, call.version, ErrorCode.NOT_COORDINATOR)
                self._give(call, refused)
        finally:  # else what it held would count for as long as this broker lives
            if shard.coordinator is not None:
                tables = shard.coordinator.tables()
                if sum(map(len, tables)) > MOST_FORGOTTEN:
                    self._slices.begin(_emptying(tables))

    # -------------------------------------------------------------------------------------------------- time

    def tick(self, now_ms: int) -> None:
        if self.due_ms is None or self.due_ms > now_ms:
            return
        self._appended = 0
        due = [(one.due_ms, index) for index, one in self.shards.items() if one.due_ms is not None]
        for due_ms, index in sorted(due)[:TICKS_AT_ONCE]:
            shard = self.shards[index]
            if due_ms > now_ms or self._appended >= APPENDS_AT_ONCE:
                break  # whoever is left is due in the next turn
            if shard.is_over:
                self._begin_anew(index, shard, now_ms)
            elif shard.coordinator is not None:
                self._tell(shard, Tick(), now_ms)
            elif shard.load.is_at_the_end and not shard.load.problem:
                self._start(index, shard, now_ms)
            else:
                self._arm(shard, None)
                self._load_on(index, shard, now_ms)

    def _arm(self, shard: Shard[C], due_ms: int | None) -> None:
        shard.due_ms = due_ms
        self.due_ms = min(
            (one.due_ms for one in self.shards.values() if one.due_ms is not None), default=None
        )

    # ------------------------------------------------------------------------------------------------- steps

    def _tell(self, shard: Shard[C], event: Any, now_ms: int) -> None:
        """An append may be committed at once, and what follows from that is another step, after this one."""
        self._events.append((shard, event))
        if self._is_stepping:
            return
        self._is_stepping = True
        self._rows_of_steps = 0
        try:
            while self._events:
                told, event = self._events.popleft()
                try:
                    self._step(told, event, now_ms)
                except Exception:
                    # Ours: nothing it remembers can be trusted now, and all of it stands in the log.
                    self._distrust(told, trace(), now_ms)
        finally:
            self._is_stepping = False

    def _step(self, shard: Shard[C], event: Any, now_ms: int) -> None:
        if shard.is_over or shard.coordinator is None:
            return
        most_bytes = shard.partition.log.config.max_message_bytes
        if most_bytes != shard.most_bytes:  # somebody set it for the topic
            shard.most_bytes = most_bytes
            shard.coordinator.limit_appends(most_bytes)
        effects = shard.coordinator.step(event, now_ms)
        for line in effects.lines:
            self._effects.append(LogLine("warning", line))
        self._answer(effects.answers)
        if isinstance(event, Unloaded):
            return
        for append in effects.appends:
            self._append_in_turn(shard, append, now_ms)
        self._stepped(shard, effects, now_ms)
        due_ms = shard.coordinator.next_deadline_ms()
        if due_ms != shard.due_ms and not shard.is_over:
            self._arm(shard, due_ms)

    def _answer(self, answers: Sequence[Any]) -> None:
        """All members of a group may be answered at once; each has a connection to write to."""
        told = [(self._calls[answer.call], answer.response) for answer in answers]
        left = deque(told[MOST_ANSWERS:])

        def some(now_ms: int) -> bool:
            for _ in range(min(ANSWERS_OF_A_SLICE, len(left))):
                self._give(*left.popleft())
            return bool(left)

        if left:
            self._slices.begin(some)
        for answer in answers:  # nothing can fail any more: whoever is no call nobody would answer, or refuse
            del self._calls[answer.call]
        del told[MOST_ANSWERS:]
        for one in told:
            self._give(*one)

    def _give(self, call: Call, response: Response | Later | Make) -> None:
        """A mistake of ours in one keeps nobody from another one."""
        try:
            call.done(self._made_for(call, response) if callable(response) else response)
        except Exception:
            self._tell_of_a_mistake()

    def _made_for(self, call: Call, make: Make) -> Response:
        """Who waits for what cannot be made is refused, and asks again: nobody else would answer."""
        try:
            return make()
        except Exception:
            self._tell_of_a_mistake()
            return self._refused(call.request, call.version, ErrorCode.NOT_COORDINATOR)

    def _tell_of_a_mistake(self) -> None:
        self._effects.append(LogLine("error", f"a mistake of ours in an answer:\n{trace()}"))

    def _distrust(self, shard: Shard[C], trace: str, now_ms: int) -> None:
        index = shard.partition.topic_partition.partition
        self._effects.append(
            LogLine("error", f"{self._name(index)}: a mistake of ours, so it is loaded again:\n{trace}")
        )
        try:
            self._end(shard)
        finally:
            if self.shards.get(index) is shard:
                self._begin_anew(index, shard, now_ms)

    def _begin_anew(self, index: int, former: Shard[C], now_ms: int) -> None:
        """In the place of one that was given up."""
        self._arm(former, now_ms + LOAD_AGAIN_MS)  # should there be no memory for it now
        again = Shard[C](former.partition, self._new_load(former.partition))
        self.shards[index] = again
        again.distrusted_ms = now_ms
        if former.distrusted_ms is not None and now_ms < former.distrusted_ms + LOAD_AGAIN_MS:
            # As where there is no memory for longer. Of a partition without records all of it is one turn.
            self._arm(again, now_ms + LOAD_AGAIN_MS)
        else:
            self._arm(again, None)
            self._load_on(index, again, now_ms)

    # ------------------------------------------------------------------------------------------------ appends

    def _append_in_turn(self, shard: Shard[C], append: Any, now_ms: int) -> None:
        shard.appends.append(append)
        self._rows_of_steps += self._rows(append)
        if append.producer is not None or (len(shard.appends) == 1 and self._rows_of_steps <= MOST_ROWS):
            # A transaction was found open in this turn. In the next one its marker may stand in the log.
            while self._append_next(shard, now_ms):
                pass
        elif len(shard.appends) == 1:
            self._slices.begin(lambda later_ms: self._append_in_pieces(shard, later_ms))

    def _append_in_pieces(self, shard: Shard[C], now_ms: int) -> bool:
        """A group of KIP-848 that is converted writes ten thousand records, which take 70 ms."""
        if shard.is_over or not shard.appends:
            return False
        append = shard.appends[0]
        if self._encodes_one_by_one(append):
            at = len(shard.encoded)
            try:
                shard.encoded += map(self._encoded, append.records[at : at + MOST_ROWS])
            except Exception:  # ours, as in a step
                self._distrust(shard, trace(), now_ms)
                return False
            if len(shard.encoded) < len(append.records):
                return True
        return self._append_next(shard, now_ms)

    def _append_next(self, shard: Shard[C], now_ms: int) -> bool:
        """Of those that wait. Whether there is another one."""
        if shard.is_over or not shard.appends:
            return False
        append = shard.appends.popleft()
        encoded, shard.encoded = shard.encoded, []
        try:
            self._append(shard, append, encoded, now_ms)
        except Exception:  # ours, as in a step
            self._distrust(shard, trace(), now_ms)
        return bool(shard.appends)

    def _append(
        self, shard: Shard[C], append: Any, encoded: list[tuple[bytes, bytes | None]], now_ms: int
    ) -> None:
        """`encoded`: the first of its records."""
        partition = shard.partition
        self._appended += 1
        batch = self._batch(append, encoded, now_ms)
        try:
            result = partition.append(memoryview(batch), acks=ACKS_ALL, now_ms=now_ms, from_coordinator=True)
        except ProtocolError as refusal:
            return self._tell(shard, AppendFailed(append.append_id, refusal.code), now_ms)
        required = result.last_offset + 1
        if partition.high_watermark >= required:
            return self._tell(shard, Committed(append.append_id, result.base_offset), now_ms)
        self._wait(AppendWait(self, shard, append.append_id, result.base_offset, required), now_ms)
        return None

    def _encodes_one_by_one(self, append: Any) -> bool:
        return len(append.records) > MOST_ROWS

    def _batch(self, append: Any, encoded: list[tuple[bytes, bytes | None]], now_ms: int) -> bytes:
        producer = append.producer
        rest = map(self._encoded, append.records[len(encoded) :])
        records = [NewRecord(*one, timestamp=now_ms) for one in chain(encoded, rest)]
        if producer is None:
            return build_batch(records)
        return build_batch(
            records,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            is_transactional=True,
        )

    def _wait(self, wait: AppendWait, now_ms: int) -> None:
        wait.shard.partition.commit_waiters.add(wait.required_offset, wait, 0)
        self.purgatory.park(wait, deadline_ms=now_ms + self._append_timeout_ms())

    def settled(self, wait: AppendWait, now_ms: int) -> None:
        event: Any = Committed(wait.append_id, wait.base_offset)
        if wait.error:
            event = AppendFailed(wait.append_id, wait.error)
        self._tell(wait.shard, event, now_ms)

    def undecided(self, wait: AppendWait, error: ErrorCode, now_ms: int) -> None:
        """Whoever waits is told, once, and the records may be committed all the same: then they count."""
        shard = wait.shard
        if shard.is_over:
            return None
        if shard.partition.is_leader and shard.partition.high_watermark >= wait.required_offset:
            return self._tell(shard, Committed(wait.append_id, wait.base_offset), now_ms)
        again = AppendWait(self, shard, wait.append_id, wait.base_offset, wait.required_offset, is_told=True)
        self._wait(again, now_ms)
        if not wait.is_told:
            self._tell(shard, AppendFailed(wait.append_id, error), now_ms)
        return None

    def _name(self, index: int) -> TopicPartition:
        return TopicPartition(self.topic, index)


def _emptying(tables: list[dict[Any, Any]]) -> Piece:
    def some(now_ms: int) -> bool:
        left = FORGOTTEN_OF_A_SLICE
        while tables and left > 0:
            table = tables[-1]
            for _ in range(min(left, len(table))):
                table.popitem()
                left -= 1
            left -= 1
            if not table:
                tables.pop()
        return bool(tables)

    return some
