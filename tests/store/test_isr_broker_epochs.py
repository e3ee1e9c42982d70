"""The incarnations of the ISR in a state node: ours, unknown to Apache, void once Apache has written the node."""

import json

from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
)
from odradek.store import layout
from odradek.store.api import Node, Stat

STATE = LeaderAndIsr(BrokerId(2), LeaderEpoch(4), (BrokerId(2), BrokerId(1)), PartitionEpoch(7))
EPOCHS = (BrokerEpoch(31), BrokerEpoch(30))
DATA = layout.encode_partition_state(STATE, ControllerEpoch(3), EPOCHS)


def decoded(data: bytes, zxid: int = 55) -> tuple[tuple[int, ...], int]:
    stored = layout.decode_partition_state("/p/state", data, 7, zxid)
    assert stored.leader_and_isr == STATE
    return stored.isr_broker_epochs, stored.written_zxid


def test_what_was_written_is_read_back_and_the_age_of_the_node_is_not_needed() -> None:
    assert decoded(DATA) == (EPOCHS, -1)


def test_apaches_keys_come_first_and_are_as_they_were() -> None:
    plain = layout.encode_partition_state(STATE, ControllerEpoch(3))
    assert DATA.startswith(plain[:-1])


def test_written_over_by_another_controller_epoch_they_are_void() -> None:
    value = json.loads(DATA)
    value["controller_epoch"] = 4  # somebody who kept keys unknown to him
    assert decoded(json.dumps(value).encode()) == ((), 55)


def test_without_them_the_age_of_the_node_is_kept() -> None:
    assert decoded(layout.encode_partition_state(STATE, ControllerEpoch(3))) == ((), 55)


def test_a_list_that_does_not_fit_the_isr_is_void() -> None:
    value = json.loads(DATA)
    value["isr_broker_epochs"] = [31]
    assert decoded(json.dumps(value).encode()) == ((), 55)


def test_equal_texts_written_at_different_times_stay_apart_only_where_that_matters() -> None:
    partitions = [TopicPartition("t", n) for n in range(2)]

    def read(data: bytes) -> list[int]:
        nodes = [Node(data, Stat(7, 0, 1, zxid)) for zxid in (50, 60)]
        states, _, _ = layout.decode_partition_states(partitions, nodes)
        return [states[partition].written_zxid for partition in partitions]

    assert read(DATA) == [-1, -1]
    assert read(layout.encode_partition_state(STATE, ControllerEpoch(3))) == [50, 60]
