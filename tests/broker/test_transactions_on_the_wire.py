"""What Apache Kafka 4.1 answered to transactional clients, request by request, against a whole broker: a Produce 12 or a
TxnOffsetCommit 5 travels through leader, coordinator and log. `tests.coordinator.transaction_traces` plays the same to
the pure coordinator."""

from base64 import b64decode, b64encode
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from odradek.protocol import messages
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from odradek.records.batch import read_header
from odradek.records.checksum import crc32c
from tests.broker.world import World
from tests.coordinator.traces import Json, Trace, _completed, traces
from tests.coordinator.transaction_traces import TransactionPlayer

FETCH = 1
# Trace -> steps that differ, each with the row of docs/differences.md.
KNOWN = {
    # A refused Produce names no start of the log.
    "verification": {"5 Produce", "8 Produce", "12 Produce"},
}
CRC, AFTER_CRC, PRODUCER_ID = slice(17, 21), 21, slice(43, 51)
TRACES = [
    trace
    for trace in traces("transactions-4.1").values()
    if trace.name not in ("features", "init-v6")  # what is listed, and a version that is not
]


class WirePlayer(TransactionPlayer):
    """Steps are asked of one broker that leads and coordinates everything."""

    def __init__(self, trace: Trace, path: Path) -> None:
        config = {name: str(value) for name, value in trace.head["config"].items()}
        kept = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        self.world = World(path, brokers=(1,), **({kept: config[kept]} if kept in config else {}))
        self.world[1].broker.features_changed({"transaction.version": 2}, 0)
        for number, topic in enumerate((TRANSACTIONS_TOPIC, GROUPS_TOPIC, *_topics(trace)), 1):
            for index in range(1 if number <= 2 else 4):
                self.world.lead(
                    1,
                    isr=(1,),
                    replicas=(1,),
                    topic=topic,
                    index=index,
                    topic_id=bytes([number] * 16),
                    is_new=True,
                )
        for effect in [one for one in self.world[1].told if isinstance(one, fx.SendToController)]:
            self.world[1].told.remove(effect)
            block = AllocateProducerIdsResponse(producer_id_start=7_000, producer_id_len=1_000)
            self.world[1].broker.answered(effect.request_id, block, self.world.now_ms)
        self.world.advance(10)
        super().__init__(replace(trace, steps=deepcopy(trace.steps)))

    def _ask(self, step: Json) -> None:
        version = step["version"]
        request_class = messages.request_class(step["key"])
        asked = self._resolved(self._with_symbols(step["request"]))
        for topic in asked.get("topicData", ()):
            for partition in topic["partitionData"]:
                partition["records"] = self._with_our_producer(partition["records"])
        request = request_class.from_json(version, _completed(request_class, version, asked))
        response = self.world.call(1, request, version).to_json(version)
        if step["key"] == FETCH:
            _leave_records_out(step["response"])
            _leave_records_out(response)
        self.answered[step["step"]] = response

    def _do(self, step: Json) -> None:
        assert step["do"] == "wait", step
        self.world.advance(step["ms"])

    def _load(self) -> Any:
        """There is a broker."""

    def _compare_records(self, step: Json) -> None:
        """Those of the coordinator are compared where it stands alone."""

    def _with_our_producer(self, records: str) -> str:
        """The batch of the recording, by the producer id that ours gave."""
        batch = bytearray(b64decode(records))
        theirs = read_header(memoryview(batch), 0).producer_id
        ours = self._resolved(self._with_symbols({"producerId": theirs}))["producerId"]
        batch[PRODUCER_ID] = ours.to_bytes(8, "big")
        batch[CRC] = crc32c(memoryview(batch)[AFTER_CRC:]).to_bytes(4, "big")
        return b64encode(batch).decode()


def _topics(trace: Trace) -> list[str]:
    named = {
        topic["name"]
        for step in trace.steps
        for topic in (step.get("request") or {}).get("topicData", ())
        if topic["name"] != "t-none"
    }
    return [*sorted(named), "t1"]


def _leave_records_out(response: Json) -> None:
    for topic in response["responses"]:
        for partition in topic["partitions"]:
            del partition["records"]


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.name)
@pytest.mark.behaviour("T22", "T23", "T24", "T25", "T26", "T27", "T28", "T29", "T30")
def test_a_client_of_version_2_hears_what_apache_told_it(trace: Trace, tmp_path: Path) -> None:
    differences = WirePlayer(trace, tmp_path).play()

    found = {line.split(":")[0] for line in differences}
    assert found == KNOWN.get(trace.name, set()), "\n".join(differences)


def test_every_trace_of_version_2_is_there() -> None:
    assert len(TRACES) == 7
