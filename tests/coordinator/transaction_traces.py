"""Recorded traces of a transaction coordinator, played to ours (`tests.coordinator.traces` says how one is read).

Asked is what the coordinator is asked, and what it is asked by other brokers for clients of `transaction.version` 2:
their Produce 12 and TxnOffsetCommit 5 add a partition. Every marker is written at once, but to a partition that the trace
has no leader for.
"""

from base64 import b64decode
from dataclasses import dataclass, field
from typing import Any

from odradek.coordinator.events import Asked, Committed, Unloaded
from odradek.coordinator.loading import Loaded
from odradek.coordinator.member import Client
from odradek.coordinator.stored_transactions import StoredTransactions
from odradek.coordinator.transaction_coordinator import TransactionCoordinator
from odradek.coordinator.transaction_effects import MarkersWritten
from odradek.coordinator.transaction_records import (
    StoredTransaction,
    TransactionRecord,
    decode,
    encode,
)
from odradek.coordinator.transaction_refusals import refuse
from odradek.coordinator.transaction_settings import TransactionSettings
from odradek.coordinator.transaction_states import TransactionState
from odradek.coordinator.transaction_tables import TransactionLogKey, TransactionLogValue
from odradek.model.error_codes import ErrorCode
from odradek.protocol import messages
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.records.batch import read_header
from tests.coordinator.traces import Json, Player, Trace, Waiting, _completed

TOPIC = "__transaction_state"
KEYS = {22, 24, 25, 26, 65, 66}
FIRST_PRODUCER_ID = 5_000
ADDS = -1  # a call of another broker, whose answer nobody compares


class Topics(dict[str, int]):
    """Of the recording: those that are asked about, but for the ones whose name says that they are missing."""

    def get(self, name: str, default: Any = None) -> Any:
        return 0 if name == "t-none" else 1 if name == "__consumer_offsets" else 4


@dataclass
class TransactionPlayer(Player):
    records: list[tuple[bytes, bytes | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        config = self.trace.head["config"]
        self.transaction_version = 2 if self.trace.folder.endswith("4.1") else 0
        self.transaction_settings = TransactionSettings(
            abort_timed_out_interval_ms=config.get(
                "transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000
            ),
            id_expiration_ms=config.get("transactional.id.expiration.ms", 7 * 24 * 3_600_000),
            remove_expired_interval_ms=config.get(
                "transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000
            ),
            markers_wait_ms=0,  # there nobody waits for markers
        )
        self.next_producer_id = FIRST_PRODUCER_ID
        self.is_alone_away = False
        self.held: list[MarkersWritten] = []
        if self.trace.name == "offsets-commit":
            self._was_there("x1-offsets")
        super().__post_init__()

    def _was_there(self, name: str) -> None:
        """The recording used an id again that another one had used before."""
        value = StoredTransaction(
            self._take_producer_id(), 0, 60_000, TransactionState.COMPLETE_COMMIT, frozenset(), self.now_ms
        )
        self.records.append(encode(TransactionRecord(name, value), 0))

    # ------------------------------------------------------------------------------------------------- steps

    def _ask(self, step: Json) -> None:
        if step["key"] in (0, 28) and step["version"] >= (12 if step["key"] == 0 else 5):
            return self._add_for(step)
        known = messages.request_class(step["key"]).VERSIONS
        if step["key"] not in KEYS or step["version"] not in known:
            return None
        version = step["version"]
        if step["key"] == 22 and step["request"]["transactionalId"] is None:
            return None  # of no coordinator
        asked = self._resolved(self._with_symbols(step["request"]))
        request_class = messages.request_class(step["key"])
        request: Any = request_class.from_json(version, _completed(request_class, version, asked))
        self.calls[step["step"]] = Waiting(step, messages.response_class(step["key"]))
        if step.get("note") == "the old coordinator" or self.trace.name == "not-coordinator":
            del self.calls[step["step"]]
            response = refuse(request, version, ErrorCode.NOT_COORDINATOR)
            self.answered[step["step"]] = response.to_json(version)
            return None
        self._step(Asked(step["step"], version, Client(step["actor"], "/127.0.0.1"), request, ""))
        return None

    def _add_for(self, step: Json) -> None:
        """What a leader asks before it appends; its answer is the client's where it is an error."""
        asked = self._with_symbols(step["request"])
        if step["key"] == 0:
            (topic,) = asked["topicData"]
            (partition,) = topic["partitionData"]
            header = read_header(memoryview(b64decode(partition["records"])), 0)
            name, producer, epoch = asked["transactionalId"], header.producer_id, header.producer_epoch
            producer = self._resolved(self._with_symbols({"producerId": producer}))["producerId"]
            topics = [AddPartitionsToTxnTopic(name=topic["name"], partitions=[partition["index"]])]
            theirs = step["response"]["responses"][0]["partitionResponses"][0]["errorCode"]
        else:
            resolved = self._resolved(asked)
            name, producer, epoch = (
                asked["transactionalId"],
                resolved["producerId"],
                asked["producerEpoch"],
            )
            topics = [AddPartitionsToTxnTopic(name="__consumer_offsets", partitions=[0])]
            theirs = step["response"]["topics"][0]["partitions"][0]["errorCode"]
        one = AddPartitionsToTxnTransaction(
            transactional_id=name, producer_id=producer, producer_epoch=epoch, topics=topics
        )
        self.added: Any = None
        self._step(Asked(ADDS, 5, Client("broker", "/"), AddPartitionsToTxnRequest(transactions=[one]), ""))
        rows = self.added.results_by_transaction[0].topic_results[0].results_by_partition
        ours = rows[0].partition_error_code
        ours = 47 if ours == ErrorCode.PRODUCER_FENCED else ours
        if ours and ours != theirs:
            self._differ(step, f"ours refuses to add with {ours}, {theirs} there")
        if not ours and theirs in (47, 49, 51) and step["note"] != "the old epoch writes":
            self._differ(step, f"ours adds, {theirs} there")

    def _do(self, step: Json) -> None:
        what = step["do"]
        if what == "wait":
            return self._until(self.now_ms + step["ms"])
        if "a record with epoch" in what:
            (name,) = self.coordinator.room.stored.by_id
            value = self.coordinator.room.stored.by_id[name]
            epoch = int(what.split("epoch ")[1].split()[0])
            self.records.append(encode(TransactionRecord(name, value._replace(epoch=epoch)), 0))
        elif "leadership" in what:
            self._step(Unloaded())
            self.coordinator = self._load()
        elif what.startswith("broker 2, the only one with"):
            self.is_alone_away = True
        elif what == "broker 2 starts again":
            self.is_alone_away = False
            held, self.held = self.held, []
            for one in held:
                self._step(one)
        return None

    def _markers(self, step: Json) -> None:
        return None

    # ------------------------------------------------------------------------------------------- coordinator

    def _load(self) -> Any:
        loaded = Loaded(StoredTransactions(), decode)
        for position, (key, value) in enumerate(self.records):
            loaded.record(key, value, position, -1)
        return TransactionCoordinator(
            self.transaction_settings,
            Topics(),
            self._take_producer_id,
            loaded.stored,
            self.now_ms,
            lambda: self.transaction_version,
        )

    def _take_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id

    def _done(self, effects: Any) -> None:
        for answer in effects.answers:
            if answer.call == ADDS:
                self.added = answer.response
                continue
            waiting = self.calls.pop(answer.call)
            self.answered[answer.call] = answer.response.to_json(waiting.step["version"])
        for append in effects.appends:
            base_offset = len(self.records)
            version = 1 if self.transaction_version else 0
            self.records += [encode(record, version) for record in append.records]
            self.written.append(append)
            self._step(Committed(append.append_id, base_offset))
        for markers in effects.markers:
            away = frozenset(one for one in markers.partitions if one.topic == "alone" and self.is_alone_away)
            head = markers[:3]
            if away:
                self.held.append(MarkersWritten(*head, away))
            self._step(MarkersWritten(*head, markers.partitions - away))

    # ------------------------------------------------------------------------------------------- comparisons

    def _compare_records(self, step: Json) -> None:
        """Whether the Complete record of a step is in this or in the next one is a matter of milliseconds there."""
        theirs = [
            (record["key"]["json"], record["value"] and (record["value"]["version"], record["value"]["json"]))
            for record in step.get("records", ())
            if record["topic"] == TOPIC
        ]
        if "failover" in self.trace.folder:
            return  # its records were not kept
        version = 1 if self.transaction_version else 0
        ours = [_shown(*encode(record, version)) for append in self.written for record in append.records]
        if step.get("do") == "wait" or len(theirs) < len(ours):
            theirs = [one for one in theirs if not _is_complete(one)]
            ours = [one for one in ours if not _is_complete(one)]
        for line in self._compare(_in_order(theirs), _in_order(ours), "records"):
            self._differ(step, line)

    def _with_symbols(self, value: Any) -> Any:
        """Some requests hold a producer id as the number it had there."""
        numbers = {number: name for name, number in self.trace.head.get("symbols", {}).items()}
        if isinstance(value, dict):
            return {
                key: numbers.get(one, numbers.get(str(one), one))
                if key.lower().endswith("producerid") and isinstance(one, int)
                else self._with_symbols(one)
                for key, one in value.items()
            }
        return [self._with_symbols(one) for one in value] if isinstance(value, list) else value


def _shown(key: bytes, value: bytes | None) -> tuple[Json, tuple[int, Json] | None]:
    shown = TransactionLogKey.decode(0, key, 2).to_json(0)
    if value is None:
        return shown, None
    version = int.from_bytes(value[:2], "big")
    return shown, (version, TransactionLogValue.decode(version, value, 2).to_json(version))


def _is_complete(record: Any) -> bool:
    return record[1] is not None and record[1][1]["transactionStatus"] in (4, 5)


def _in_order(records: list[Any]) -> list[Any]:
    for _, value in records:
        rows = value[1]["transactionPartitions"] if value else None
        for row in rows or ():
            row["partitionIds"] = sorted(row["partitionIds"])
        if rows:
            rows.sort(key=lambda row: row["topic"])
    return records


def is_of_transactions(trace: Trace) -> bool:
    return any(step.get("key") in KEYS for step in trace.steps)
