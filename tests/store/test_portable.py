"""What `odradek store export` writes and `import` reads: nothing lost on the way, nothing taken that is damaged."""

import asyncio
import json

import pytest

from odradek.store import layout, portable
from odradek.store.api import ConditionalOps, Create, Node, NodeExists, Stat
from odradek.store.memory_session import MemoryEnsemble, MemorySession
from odradek.store.portable import CannotMove, PortableNode

STATE = "/brokers/topics/t/partitions/0/state"


def plain(version: int = 0) -> Stat:
    return Stat(version, 0, 1, 1)


def test_a_tree_goes_through_a_file_unchanged() -> None:
    nodes = [
        PortableNode("/a", b"", 0),
        PortableNode("/a/b", '{"ü":"\u2028"}'.encode(), 7),
        PortableNode("/a/c", b"\xff\x00", 1),
    ]
    assert portable.decode(list(portable.encode(nodes, 12))) == nodes


def test_what_does_not_last_is_left_out() -> None:
    found = [
        ("/", Node(b"", plain())),
        ("/brokers", Node(b"", plain())),
        ("/brokers/ids", Node(b"", plain())),
        ("/brokers/ids/1", Node(b"{}", Stat(1, 0, 1, 1, ephemeral_owner=77))),
        ("/config/changes", Node(b"", plain())),
        ("/config/changes/config_change_0000000003", Node(b"{}", plain())),
        ("/isr_change_notification/isr_change_0000000000", Node(b"{}", plain())),
        ("/log_dir_event_notification/log_dir_event_0000000000", Node(b"{}", plain())),
        ("/controller", Node(b"{}", Stat(0, 0, 1, 1, ephemeral_owner=77))),
        ("/controller_epoch", Node(b"5", plain(4))),
    ]
    assert [node.path for node in portable.portable(found)] == [
        "/brokers",
        "/brokers/ids",
        "/config/changes",
        "/controller_epoch",
    ]
    assert portable.registered_brokers(found) == ["1"]


def test_incarnations_of_the_old_store_are_forgotten_and_all_else_of_a_state_is_kept() -> None:
    data = (
        b'{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":4,"isr":[1,2],"elr":[3],'
        b'"elr_controller_epoch":3,"isr_broker_epochs":[25,31],"isr_broker_epochs_controller_epoch":3,'
        b'"elr_broker_epochs":[28]}'
    )
    (moved,) = portable.portable([(STATE, Node(data, plain(9)))])
    before, after = json.loads(data), json.loads(moved.data)
    assert set(before) - set(after) == {
        "isr_broker_epochs",
        "isr_broker_epochs_controller_epoch",
        "elr_broker_epochs",
    }
    assert all(before[name] == value for name, value in after.items())
    # Then whoever registers in the new store counts as restarted since this was written.
    assert layout.decode_partition_state(STATE, moved.data, 0, written_zxid=12).written_zxid == 12
    damaged = b"isr_broker_epochs {"
    assert portable.portable([(STATE, Node(damaged, plain()))])[0].data == damaged
    damaged = b'{"isr_broker_epochs":' + b"[" * 100_000
    assert portable.portable([(STATE, Node(damaged, plain()))])[0].data == damaged
    damaged = b'{"isr_broker_epochs":[],"note":"\\ud800"}'
    assert portable.portable([(STATE, Node(damaged, plain()))])[0].data == damaged


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "the export is empty"),
        ([""], "line 1: not JSON"),
        (["[" * 100_000], "line 1: not JSON"),
        (["[]"], "line 1: expected a JSON object, found list"),
        (['{"nodes":0}'], "line 1: no export of `odradek store export`"),
        (['{"odradek_export":2,"nodes":0}'], "another version (2; this Odradek reads 1)"),
        (['{"odradek_export":1,"nodes":2}', '{"path":"/a","value":""}'], "was cut off: 1 of 2 nodes"),
        (['{"odradek_export":1,"nodes":1}', '{"path":"/a"}'], "line 2: expected path, and value or base64"),
        (['{"odradek_export":1,"nodes":1}', '{"path":"a","value":""}'], "line 2: 'a' is no path of a node"),
        (['{"odradek_export":1,"nodes":1}', '{"path":"/","value":""}'], "line 2: / is always there"),
        (['{"odradek_export":1,"nodes":1}', '{"path":"/a","base64":"?"}'], "line 2: "),
        (['{"odradek_export":1,"nodes":1}', '{"path":"/a/b","value":""}'], "/a/b comes before its parent /a"),
        (
            ['{"odradek_export":1,"nodes":2}', '{"path":"/a","value":""}', '{"path":"/a","value":""}'],
            "line 3: /a is there twice",
        ),
    ],
)
def test_what_is_no_whole_export_is_refused(lines: list[str], why: str) -> None:
    with pytest.raises(CannotMove) as caught:
        portable.decode(lines)
    assert why in str(caught.value)


NODES = [
    PortableNode("/brokers", b""),
    PortableNode("/brokers/ids", b""),
    PortableNode("/brokers/topics", b""),
    PortableNode("/brokers/topics/t", b"topic"),
    PortableNode("/cluster", b""),
    PortableNode("/cluster/id", b'{"version":"1","id":"abc"}'),
    PortableNode("/controller_epoch", b"7"),
]


def in_memory(scenario) -> None:
    async def run() -> None:
        ensemble = MemoryEnsemble()
        await scenario(ensemble, ensemble.open())

    asyncio.run(run())


def test_an_import_is_what_was_exported_and_the_id_comes_last() -> None:
    async def scenario(ensemble: MemoryEnsemble, session: MemorySession) -> None:
        await portable.check_target(session, force=False)
        await portable.write_all(session, NODES)
        found = await portable.below(session, "/")
        assert [node._replace(version=0) for node in portable.portable(found)] == NODES
        assert portable.cluster_id_of(NODES) == "abc"
        last = max(found, key=lambda item: item[1].stat.czxid)
        assert last[0] == "/cluster/id"

    in_memory(scenario)


def test_a_cluster_that_is_there_is_kept_unless_it_is_forced() -> None:
    async def scenario(ensemble: MemoryEnsemble, session: MemorySession) -> None:
        for path in ("/zookeeper", "/zookeeper/quota"):  # the server's own does not count, and stays
            await session.create(path)
        await portable.check_target(session, force=False)
        await session.create("/old", b"cluster")
        await session.create("/old/node")
        with pytest.raises(CannotMove, match=r"there is a cluster here already \(old\); --force removes it"):
            await portable.check_target(session, force=False)
        await portable.check_target(session, force=True)
        await portable.write_all(session, NODES)
        assert await session.exists("/old") is None
        assert await session.exists("/zookeeper/quota") is not None
        assert (await session.get("/brokers/topics/t")).data == b"topic"

    in_memory(scenario)


def test_nothing_is_imported_under_a_running_broker() -> None:
    async def scenario(ensemble: MemoryEnsemble, session: MemorySession) -> None:
        await session.write([ConditionalOps((), parents=("/brokers", "/brokers/ids"))], None)
        await ensemble.open().create("/brokers/ids/3", ephemeral=True)
        with pytest.raises(CannotMove, match=r"brokers are registered here \(3\); stop them first"):
            await portable.check_target(session, force=True)

    in_memory(scenario)


def test_a_broker_that_starts_during_the_import_stops_it() -> None:
    class Overtaken(MemorySession):
        async def write(self, writes, fence):
            if any(isinstance(op, Create) for group in writes for op in group.ops):
                await self.multi([Create("/cluster"), Create("/cluster/id", b"another")])
            return await super().write(writes, fence)

    async def scenario(ensemble: MemoryEnsemble, session: MemorySession) -> None:
        overtaken = Overtaken(ensemble, ensemble.tree.open_session(6000), 6000)
        with pytest.raises(CannotMove, match="/cluster was created by another client during the import"):
            await portable.write_all(overtaken, NODES)
        with pytest.raises(NodeExists):
            await session.create("/cluster/id")

    in_memory(scenario)


def test_an_import_that_met_somebody_else_is_no_cluster() -> None:
    """Without its id no broker takes it for one, and starts on half of what was exported."""

    class Disturbed(MemorySession):
        async def write(self, writes, fence):
            if any(isinstance(op, Create) for group in writes for op in group.ops):
                self._ensemble.tree.multi(self.session_id, [Create("/brokers")])
            return await super().write(writes, fence)

    async def scenario(ensemble: MemoryEnsemble, session: MemorySession) -> None:
        disturbed = Disturbed(ensemble, ensemble.tree.open_session(6000), 6000)
        with pytest.raises(CannotMove, match="/brokers was created by another client during the import"):
            await portable.write_all(disturbed, NODES)
        assert await session.exists("/cluster/id") is None

    in_memory(scenario)
