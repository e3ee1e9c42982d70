"""A partition as a value: what is made from an image is what the image was made of."""

from dataclasses import replace
from pathlib import Path

from odradek.model.cluster import ReplicaAssignment
from odradek.replication.isr import PendingExpandIsr
from odradek.replication.partition import Partition
from odradek.replication.partition_image import PartitionImage
from tests.replication.partitions import LAG_MS, T0, TOPIC_ID, Led, a_batch, b, leadership


def made_of(image: PartitionImage, led: Led) -> Partition:
    return Partition.of(
        image,
        led.partition.log,
        topic_partition=T0,
        topic_id=TOPIC_ID,
        broker=led.partition.broker,
        min_insync_replicas=1,
        replica_lag_time_max_ms=LAG_MS,
        live_brokers=led.live,
        outbox=led.outbox,
    )


def test_what_is_made_from_an_image_has_that_image_in_the_middle_of_an_alter_partition_too(
    tmp_path: Path,
) -> None:
    led = Led(tmp_path, isr=(1, 2))
    led.append(b"a", b"b")
    led.fetched(2, 2)
    assert [f.proposed_epoch for f in led.partition.image().followers] == [-1, -1]
    led.fetched(3, 2, broker_epoch=7)
    image = led.partition.image()
    assert isinstance(image.state, PendingExpandIsr)
    assert [f.proposed_epoch for f in image.followers if f.broker == 3] == [7]
    assert made_of(image, led).image() == image


def test_what_is_made_from_an_image_goes_on_as_a_leader(tmp_path: Path) -> None:
    led = Led(tmp_path, isr=(1, 2))
    led.append(b"a", b"b")
    led.fetched(2, 2)
    led.partition = made_of(led.partition.image(), led)

    led.fetched(3, 2, broker_epoch=7)

    assert led.partition.state == PendingExpandIsr((b(1), b(2)), (b(3),))
    assert led.outbox.proposals == [led.partition]


def test_a_leader_that_commits_nothing_while_a_replica_is_eligible_goes_on_so(tmp_path: Path) -> None:
    led = Led(tmp_path, isr=(1, 2), min_isr=1)
    alone = replace(leadership(1, led.partition.leader_epoch + 1, (1,)), elr=(b(2),))
    led.partition.make_leader(alone, led.partition.assignment, led.now_ms)
    again = made_of(led.partition.image(), led)
    assert led.partition.is_under_min_isr and again.is_under_min_isr


def test_whoever_leads_no_more_has_the_image_of_one_that_never_led(tmp_path: Path) -> None:
    """The search of small clusters would take them for two states."""
    never, led = Led(tmp_path / "never", lead=False), Led(tmp_path / "led")
    led.append(b"a")
    led.fetched(2, 1)
    never.partition.log.append_as_follower(a_batch(b"a", epoch=led.partition.leader_epoch), now_ms=0)
    for one in (never, led):
        one.partition.make_follower(leadership(2, 7, (1, 2)), ReplicaAssignment(one.replicas))
    assert led.partition.image() == never.partition.image()
