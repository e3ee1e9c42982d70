"""`elect`: preferred leaders come back, unclean ones are priced first."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.cli.elect import replica_ends as ends_module
from odradek.cli.elect.elections import Elected
from odradek.cli.elect.preferred import _why
from odradek.cli.elect.replica_ends import ReplicaEnd
from odradek.cli.elect.unclean import headline, poll, polled
from odradek.client.sync import PartitionView, SyncClient
from odradek.client.sync_connection import Unreachable
from odradek.controller.context import UncleanPoll
from odradek.controller.unclean import ranking
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from tests.cli.conftest import Shell
from tests.cli.test_sources import view
from tests.controller.world import World, tp
from tests.records.test_batch import batch
from tests.support import each, eventually


def produce(shell: Shell, where: TopicPartition, records: int) -> None:
    with SyncClient(shell.bootstrap) as client:
        client.produce(where, batch(records), timeout_s=30)


def leader(shell: Shell, topic: str) -> int:
    found: int = shell.json("topic", "describe", topic)[0]["partitions"][0]["leader"]
    return found


def test_the_preferred_replica_leads_again_once_it_is_in_sync(start_cluster: Callable[..., Any]) -> None:
    cluster, shell = start_cluster(3, settings={"auto.leader.rebalance.enable": "false"})
    controller = shell.json("cluster", "health")["controller"]
    first, second = [b for b in (1, 2, 3) if b != controller]
    shell.ok("topic", "create", "back", "--assign", f"{first},{second}")
    assert shell.ok("elect", "preferred", "back").startswith(
        "0 partitions led by the preferred replica again, 1 already, 0 could not be."
    )
    cluster.kill(first)
    eventually(lambda: leader(shell, "back") == second, what="the other leads")
    code, out, _ = shell("elect", "preferred", "back-0")
    assert code == 1 and "start it" in out
    eventually(
        lambda: f"broker {first} is not alive; start it" in shell("elect", "preferred", "back-0")[1],
        what="everybody knows that it is dead",
    )
    cluster.start(first)
    eventually(lambda: shell.json("why", "back")["well"], deadline_s=60, what="it is in sync")
    found = shell.json("elect", "preferred", "--all")
    one = {"target": "back-0", "done": True, "error": None, "leader": first}
    assert found == {"ok": True, "results": [one]}
    eventually(lambda: leader(shell, "back") == first, what="the preferred replica leads")
    shell.ok("topic", "create", "alone", "--assign", first)
    cluster.kill(first)
    eventually(lambda: leader(shell, "alone") == -1, what="nobody leads it")
    code, out, _ = shell("elect", "preferred", "alone-0")
    assert code == 1 and re.search(rf"^alone-0 +none +{first}  ", out, re.MULTILINE), out


def test_an_unclean_election_is_quoted_first_and_done_only_when_told(
    start_cluster: Callable[..., Any],
) -> None:
    """The follower is away while records come; then the leader dies, and the follower returns with the old end."""
    cluster, shell = start_cluster(3)
    controller = shell.json("cluster", "health")["controller"]
    leads, follows = [b for b in (1, 2, 3) if b != controller]
    where = TopicPartition("lossy", 0)
    shell.ok("topic", "create", "lossy", "--assign", f"{leads},{follows}")
    produce(shell, where, 5)
    cluster.kill(follows)
    eventually(lambda: "not in the ISR" in shell("why", "lossy-0")[1], what="the ISR shrank")
    produce(shell, where, 7)
    cluster.kill(leads)
    cluster.start(follows)
    quote = eventually(
        lambda: (
            (found := shell.json("elect", "unclean", "lossy")["results"][0]["quote"])
            and found["best"] == follows
            and found
        ),
        what="the survivor says what it holds",
    )
    assert quote["not_known"] == [leads] and quote["isr"] == [leads]
    by_broker = {c["broker"]: c for c in quote["candidates"]}
    assert by_broker[follows]["log_end_offset"] == 5 and by_broker[follows]["fewer_records_than_best"] == 0
    assert by_broker[leads]["problem"]
    code, out, _ = shell("elect", "unclean", "lossy")
    assert code == 1
    assert out.startswith(
        f"lossy-0 would be led by broker {follows}, which holds it up to offset 5; "
        f"records that only broker {leads} of the ISR holds beyond that are lost; how many is not known."
    )
    assert out.endswith("Nothing is elected yet; --yes elects, and what only the dead had is lost.\n")
    assert leader(shell, "lossy") == -1
    assert f"lossy-0: broker {follows} leads" in shell.ok("elect", "unclean", "lossy-0", "--yes")
    assert shell.ok("elect", "unclean", "lossy-0") == (
        f"lossy-0 is led by broker {follows}: no unclean election is needed\n"
    )


def test_nobody_alive_means_nobody_can_be_elected(start_cluster: Callable[..., Any]) -> None:
    cluster, shell = start_cluster(2)
    controller = shell.json("cluster", "health")["controller"]
    only = 3 - controller
    shell.ok("topic", "create", "lost", "--assign", only)
    cluster.kill(only)
    eventually(lambda: shell("why", "lost")[0] == 1, what="it is offline")
    code, out, _ = shell("elect", "unclean", "lost", "--yes")
    assert code == 1
    assert out.startswith(
        "lost-0 has no replica that can lead: none is alive. Start any broker that has one."
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["preferred"], 2, "Say topics or partitions, or --all"),
        (["preferred", "nope"], 1, "there is no topic nope"),
        (["unclean", "there-9"], 1, "there has 1 partition, number 0; there is no 9"),
        (["unclean"], 2, "Missing argument"),
    ],
)
def test_a_mistake_is_one_sentence(shell: Shell, arguments: list[str], code: int, words: str) -> None:
    shell("topic", "create", "there", "--assign", "1", "--if-not-exists")
    found, out, err = shell("elect", *arguments)
    assert (found, out) == (code, "")
    assert words in err and err.count("\n") == 1


@each(
    (
        ((5, 10), (4, 1000), 1),
        ((5, 10), (-1, 1000), 2),  # a broker of Apache's tells its log end alone
        ((-1, 0), (3, 7), 2),  # an empty log has no epoch
        ((5, 10), (5, 10), 1),
    )
)
def test_the_best_is_whom_the_controller_would_choose(
    first: tuple[int, int], second: tuple[int, int], best: int
) -> None:
    ends = [ReplicaEnd(broker, end, epoch) for broker, (epoch, end) in ((1, first), (2, second))]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("odradek.cli.elect.replica_ends.replica_ends", lambda *_, **__: ends)
        client: Any = None
        view = PartitionView(-1, 6, (1, 2), (3,), ())
        assert poll(client, TopicPartition("t", 0), view)["best"] == best
    world = World().brokers(1, 2, 3)
    world.elect(3)
    world.create("t", [1, 2])
    known = {
        BrokerId(broker): (LeaderEpoch(epoch), Offset(end))
        for broker, (epoch, end) in ((1, first), (2, second))
    }
    world.context.polls[tp("t-0")] = UncleanPoll(tuple(known), known, 0)
    assert ranking(world.context, tp("t-0"))[0] == best


def test_a_dead_replica_outside_the_isr_is_none_of_those_whose_records_are_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was acknowledged is in the ISR."""
    dead = [ReplicaEnd(broker, None, problem="it is not alive") for broker in (2, 3)]
    monkeypatch.setattr(
        "odradek.cli.elect.replica_ends.replica_ends", lambda *_, **__: [ReplicaEnd(1, 10, 5), *dead]
    )
    where, client = TopicPartition("t", 0), SimpleNamespace()
    found = poll(client, where, PartitionView(-1, 6, (1, 2, 3), (3,), ()))  # type: ignore[arg-type]
    assert (found["best"], found["not_known"]) == (1, [3])
    assert "records that only broker 3 of the ISR holds beyond that are lost" in headline(where, found)


def test_a_silent_replica_is_not_waited_for_with_each_partition_that_is_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An outage is thousands of them, and each took half a minute before anybody could be elected."""
    asked: list[tuple[int, str]] = []

    def call(_client: object, broker: int, request: Any, *_: object) -> Any:
        (topic,) = request.topics
        asked.append((broker, f"{topic.name}-{topic.partitions[0].partition_index}"))
        if broker == 1:
            raise Unreachable("broker 1: no answer in time")
        row = SimpleNamespace(error_code=0, offset=7)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[row])])

    seen = view([1, 2], t=[([2, 1], [])] * 3)
    monkeypatch.setattr(SyncClient, "_call", call)
    monkeypatch.setattr(SyncClient, "cluster", lambda *_: seen)
    monkeypatch.setattr(ends_module, "_last_epoch", lambda *_: 0)
    monkeypatch.setattr("odradek.client.sync_log_sizes.log_sizes", lambda *_: {})
    views = {
        TopicPartition("t", index): one._replace(leader=-1)
        for index, one in seen.topics["t"].partitions.items()
    }
    with SyncClient("h:1") as client:
        polls = polled(client, views)
    assert [poll["best"] for poll in polls.values()] == [2, 2, 2]
    assert asked == [(2, "t-0"), (1, "t-0"), (2, "t-1"), (2, "t-2")]
    assert {poll["candidates"][1]["problem"] for poll in polls.values()} == {"broker 1: no answer in time"}


def test_a_broker_that_lives_and_has_lost_a_disk_is_not_said_to_be_dead() -> None:
    """ "Start it" sent people to a broker that ran."""
    cluster = view([1, 2], t=[([2, 1], [])])
    before = cluster.topics["t"].partitions[0]._replace(isr=(1,), leader=1, offline_replicas=(2,))
    elected = Elected(TopicPartition("t", 0), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "")
    assert _why(elected, before, cluster.brokers) == (
        "its replica at broker 2 is offline: mend the disk and restart broker 2, or start it"
    )
    assert _why(elected, before, {1: cluster.brokers[1]}) == "broker 2 is not alive; start it"
