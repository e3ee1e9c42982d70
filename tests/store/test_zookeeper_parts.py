"""The pure parts of the session with ZooKeeper: bytes of multiRead, and what was missed while away."""

import asyncio
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError, UnimplementedError

from odradek.store.api import (
    Check,
    Create,
    Delete,
    Fence,
    InvalidPath,
    Node,
    SessionExpired,
    SessionState,
    Set,
    Stat,
    WatchEvent,
    WatchKind,
    check_path,
    check_paths,
)
from odradek.store.zookeeper import session
from odradek.store.zookeeper.link import LinkState
from odradek.store.zookeeper.requests import ArmMany, ListMany, Multi, ReadMany, Refused, SetMany
from odradek.store.zookeeper.security import OPEN, Security
from odradek.store.zookeeper.session import ZooKeeperStore
from odradek.store.zookeeper.watches import ArmedWatches, missed
from odradek.testing.running_cluster import ShiftedLoop

GET_DATA, ERROR, END = (
    struct.pack("!i?i", 4, False, 0),
    struct.pack("!i?i", -1, False, -101),
    struct.pack("!i?i", -1, True, -1),
)


def _node_bytes(data: bytes | None, stat: Stat) -> bytes:
    length = -1 if data is None else len(data)
    numbers = (stat.czxid, stat.mzxid, 5, 6, stat.version, stat.cversion, 0, stat.ephemeral_owner, 7, 0, 9)
    return struct.pack("!i", length) + (data or b"") + struct.pack("!qqqqiiiqiiq", *numbers)


def test_many_reads_are_one_request() -> None:
    assert ReadMany(["/a", "/ü"]).serialize() == bytes.fromhex(
        "00000004 00 ffffffff 00000002 2f61 00"
        + "00000004 00 ffffffff 00000003 2fc3bc 00"
        + "ffffffff 01 ffffffff"
    )


def test_each_answer_is_a_node_nothing_or_an_error() -> None:
    first, second = Stat(3, 4, 1, 2, 77), Stat(0, 0, 8, 8)
    answer = b"".join(
        (
            b"before",
            GET_DATA,
            _node_bytes(b"data", first),
            ERROR,
            struct.pack("!i", -101),
            GET_DATA,
            _node_bytes(None, second),
            ERROR,
            struct.pack("!i", -102),
            END,
        )
    )
    found = ReadMany(["/a", "/b", "/c", "/d"]).deserialize(answer, len(b"before"))
    assert found == [Node(b"data", first), None, Node(b"", second), -102]


def test_many_lists_are_one_request_too() -> None:
    wanted = ListMany(["/a", "/b"])
    assert wanted.serialize() == bytes.fromhex(
        "00000008 00 ffffffff 00000002 2f61 00"
        + "00000008 00 ffffffff 00000002 2f62 00"
        + "ffffffff 01 ffffffff"
    )
    names = struct.pack("!i", 2) + struct.pack("!i", 2) + "ü".encode() + struct.pack("!i", 1) + b"a"
    answer = struct.pack("!i?i", 8, False, 0) + names + ERROR + struct.pack("!i", -101) + END
    assert wanted.deserialize(answer, 0) == [["a", "ü"], None]


def test_an_answer_for_another_number_of_paths_is_refused() -> None:
    with pytest.raises(AssertionError, match="0 answers for 1 paths"):
        ReadMany(["/a"]).deserialize(END, 0)


BEFORE = Stat(version=1, cversion=2, czxid=10, mzxid=20)


@pytest.mark.parametrize(
    ("then", "now", "kind"),
    [
        (None, None, None),
        (None, BEFORE, WatchKind.CREATED),
        (BEFORE, None, WatchKind.DELETED),
        (BEFORE, BEFORE, None),
        (BEFORE, BEFORE._replace(mzxid=21, version=2), WatchKind.CHANGED),
        (BEFORE, BEFORE._replace(cversion=3), None),
        (BEFORE, BEFORE._replace(czxid=30, mzxid=30), WatchKind.DELETED),
    ],
)
def test_what_was_missed_of_a_node(then: Stat | None, now: Stat | None, kind: WatchKind | None) -> None:
    events = list(missed({"/a": then}, {}, {"/a": now}, {}))
    assert events == ([] if kind is None else [WatchEvent(kind, "/a")])


@pytest.mark.parametrize(
    ("now", "kind"),
    [
        (None, WatchKind.DELETED),
        (BEFORE, None),
        (BEFORE._replace(mzxid=21), None),
        (BEFORE._replace(cversion=3), WatchKind.CHILDREN),
        (BEFORE._replace(czxid=30), WatchKind.DELETED),
    ],
)
def test_what_was_missed_of_its_children(now: Stat | None, kind: WatchKind | None) -> None:
    events = list(missed({}, {"/a": BEFORE}, {}, {"/a": now}))
    assert events == ([] if kind is None else [WatchEvent(kind, "/a")])


def test_a_watch_fires_once_and_a_deletion_for_both() -> None:
    armed = ArmedWatches()
    armed.data["/a"] = BEFORE
    armed.children["/a"] = BEFORE
    assert not armed.fire(WatchEvent(WatchKind.CHANGED, "/b"))
    assert armed.fire(WatchEvent(WatchKind.DELETED, "/a"))
    assert not armed.fire(WatchEvent(WatchKind.DELETED, "/a"))
    armed.children["/a"] = BEFORE
    assert not armed.fire(WatchEvent(WatchKind.CHANGED, "/a"))
    assert armed.fire(WatchEvent(WatchKind.CHILDREN, "/a"))


# ---- multi


def multi(*ops: Create | Set | Delete | Check) -> Multi:
    return Multi(ops, lambda path: OPEN)


def test_a_multi_is_on_the_wire_what_kazoo_makes_of_it() -> None:
    serialization = pytest.importorskip("kazoo.protocol.serialization", reason="kazoo is not installed")
    from kazoo.security import OPEN_ACL_UNSAFE

    ops = (
        Check("/controller_epoch", 7),
        Create("/a", b"data"),
        Create("/empty"),
        Create("/b/n-", "ü".encode(), ephemeral=True, sequential=True),
        Set("/ü", b"x", 3),
        Delete("/c", -1),
    )
    kazoo = serialization.Transaction(
        [
            serialization.CheckVersion("/controller_epoch", 7),
            serialization.Create("/a", b"data", OPEN_ACL_UNSAFE, 0),
            serialization.Create("/empty", None, OPEN_ACL_UNSAFE, 0),  # null, as Apache writes it
            serialization.Create("/b/n-", "ü".encode(), OPEN_ACL_UNSAFE, 3),
            serialization.SetData("/ü", b"x", 3),
            serialization.Delete("/c", -1),
        ]
    )
    assert multi(*ops).type == serialization.Transaction.type
    assert multi(*ops).serialize() == bytes(kazoo.serialize())
    assert len(multi(*ops)) == len(kazoo.serialize())


CREATED, DELETED, STATED, CHECKED = (struct.pack("!i?i", kind, False, 0) for kind in (1, 2, 5, 13))


def failed(code: int) -> bytes:
    return struct.pack("!i?ii", -1, False, code, code)


def test_each_op_of_a_multi_has_its_outcome() -> None:
    stat = Stat(3, 4, 1, 2, 77)
    numbers = (stat.czxid, stat.mzxid, 5, 6, stat.version, stat.cversion, 0, stat.ephemeral_owner, 7, 0, 9)
    answer = b"".join(
        (
            b"before",
            *(CHECKED, CREATED, struct.pack("!i", 3), "/ü".encode()),
            *(STATED, struct.pack("!qqqqiiiqiiq", *numbers), DELETED, END),
        )
    )
    ops = (Check("/x", 0), Create("/ü"), Set("/y", b""), Delete("/z"))
    assert multi(*ops).deserialize(answer, len(b"before")) == [None, "/ü", stat, None]


def test_a_multi_that_failed_names_the_op_that_could_not_be_done() -> None:
    answer = failed(0) + failed(-103) + failed(-2) + END
    (refused,) = multi(Check("/x", 0), Set("/y", b"", 1), Delete("/z")).deserialize(answer, 0)
    assert isinstance(refused, Refused)
    assert (refused.index, refused.code) == (1, -103)


SETS = (Set("/a", b"data", 3), Set("/longer", b"", 0), Set("/ü", "ü".encode(), 2), Set("/b", b"data", 4))


@pytest.mark.parametrize("fence", [None, Fence(7)])
def test_many_sets_are_on_the_wire_as_any_multi(fence: Fence | None) -> None:
    checks = [] if fence is None else [Check(fence.path, fence.version)]
    assert SetMany(SETS, fence).serialize() == multi(*checks, *SETS).serialize()
    assert SetMany(SETS, fence).type == multi().type


@pytest.mark.parametrize("fence", [None, Fence(7)])
def test_many_sets_that_were_done_are_answered_with_their_versions(fence: Fence | None) -> None:
    stats = [struct.pack("!qqqqiiiqiiq", 1, 2, 5, 6, op.version + 1, 4, 0, 77, 7, 0, 9) for op in SETS]
    checked = b"" if fence is None else CHECKED
    answer = b"".join((b"before", checked, *[STATED + stat for stat in stats], END))
    assert SetMany(SETS, fence).deserialize(answer, len(b"before")) == [[4, 1, 3, 5]]


def test_many_sets_that_failed_name_the_one_that_could_not_be_done() -> None:
    answer = failed(0) + failed(0) + failed(-103) + failed(-2) * 2 + END
    (refused,) = SetMany(SETS, Fence(7)).deserialize(answer, 0)
    assert isinstance(refused, Refused)
    assert (refused.index, refused.code) == (2, -103)


def test_what_was_not_tried_was_not_done() -> None:
    answer = failed(-2) * len(SETS) + END
    for request in (multi(*SETS), SetMany(SETS, None)):
        (refused,) = request.deserialize(answer, 0)
        assert isinstance(refused, Refused) and refused.code == -2


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        "/",
        "//a",
        "/a/",
        "/a//b",
        "/./a",
        "/a/..",
        "/a\0",
        "/a\0/b",
        "/.a",
        "/a..",
        "/a/b",
        "/\ud800",
    ],
)
def test_many_paths_are_checked_as_each(path: str) -> None:
    def outcome(check: Callable[[], None]) -> str:
        try:
            check()
        except InvalidPath as error:
            return str(error)
        return ""

    alone = outcome(lambda: check_path(path))
    assert outcome(lambda: check_paths([path])) == alone
    assert outcome(lambda: check_paths(["/before", path, "/behind"])) == alone


# ---- many watches at once


def test_watches_of_many_nodes_are_one_request() -> None:
    assert ArmMany(["/a", "/ü"]).serialize() == bytes.fromhex(
        "7fffffffffffffff 00000002 00000002 2f61 00000003 2fc3bc 00000000 00000000"
    )


def test_a_watch_that_fires_before_its_node_was_read_is_not_armed_any_more() -> None:
    watches = ArmedWatches()
    first, second = Stat(0, 0, 1, 1), Stat(1, 0, 1, 9)
    arming = watches.begin(["/a", "/b", "/gone"])
    assert not watches.fire(WatchEvent(WatchKind.CHANGED, "/b")), "nobody was promised anything yet"
    arming.end([Node(b"", first), Node(b"", second), None])
    watches.forget(arming)
    assert watches.data == {"/a": first}
    assert watches.fire(WatchEvent(WatchKind.CHANGED, "/a"))


@pytest.mark.parametrize("where", ["in kazoo", "in ours"])
def test_an_answer_that_nobody_foresaw_reaches_whoever_asked(where: str) -> None:
    """Kept back, it would leave a session that waits for ever and yet goes on beating."""

    async def main() -> None:
        store = ZooKeeperStore("127.0.0.1:1", 6000, Security(), lambda path: OPEN, 10)

        def answer(request: object, settle: Callable[[Any, BaseException | None, int], None]) -> None:
            error = struct.error("unpack requires more bytes") if where == "in kazoo" else None
            asyncio.get_running_loop().call_soon(settle, (b"data", "no stat at all"), error, 0)

        store._link.ask = answer  # type: ignore[method-assign]
        store._become(SessionState.CONNECTED)
        with pytest.raises(struct.error if where == "in kazoo" else AttributeError):
            await asyncio.wait_for(store.get("/a"), 60)

    asyncio.run(main())


class Wire:
    """The way of one session to a server that the test plays."""

    refusal: Exception | None = None  # of a read of many nodes

    def __init__(self, store: ZooKeeperStore) -> None:
        self._store = store
        self._asked: list[tuple[Any, Callable[[Any, BaseException | None, int], None]]] = []
        store._link.ask = lambda request, settle: self._asked.append((request, settle))  # type: ignore[method-assign]
        store._link._client._session_id = 5

    async def up(self) -> None:
        self._store._link_became(LinkState.UP)
        await self.turn()

    async def lose(self) -> None:
        """As kazoo tells it: first to whoever waits for an answer, and right behind that that the connection is gone."""
        asked, self._asked = self._asked, []
        for _, settle in asked:
            asyncio.get_running_loop().call_soon(settle, None, ConnectionLoss(), 0)
        asyncio.get_running_loop().call_soon(self._store._link_became, LinkState.DOWN)
        await self.turn()

    async def answer(self, mzxids: dict[str, int], number: int = 1) -> None:
        for _ in range(number):
            request, settle = self._asked.pop(0)
            if isinstance(request, ArmMany):
                settle(None, None, 0)
            elif isinstance(request, ReadMany):
                if self.refusal is None:
                    settle(
                        [Node(b"", Stat(0, 0, 1, mzxids.get(path, 0))) for path in request._paths], None, 0
                    )
                else:
                    settle(None, self.refusal, 0)
            else:
                mzxid = mzxids.get(request.path, 0)
                settle(
                    SimpleNamespace(version=0, cversion=0, czxid=1, mzxid=mzxid, ephemeralOwner=0),
                    None,
                    mzxid,
                )
            await self.turn()

    async def answer_all(self, mzxids: dict[str, int]) -> int:
        """How many there were."""
        count = 0
        while self._asked:
            await self.answer(mzxids)
            count += 1
        return count

    async def turn(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


def test_an_answer_is_a_sign_of_the_life_that_its_question_was() -> None:
    """The server has heard of us when it read the question. What it has sent long since may lie in a buffer of ours: others may have
    been elected by then."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ShiftedLoop)
        store = ZooKeeperStore("127.0.0.1:1", 60_000, Security(), lambda path: OPEN, 10)
        wire = Wire(store)
        await wire.up()
        asked = asyncio.ensure_future(store.exists("/controller"))
        await wire.turn()
        loop.ahead_s += 50
        await wire.answer({})
        await asked
        again = asyncio.ensure_future(store.exists("/controller"))
        await wire.turn()
        assert again.done() and isinstance(again.exception(), SessionExpired)
        await store.close()

    with asyncio.Runner(loop_factory=ShiftedLoop) as runner:
        runner.run(main())


def test_a_change_is_told_though_the_connection_is_lost_again_while_it_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two watched nodes the first was looked at again, and has changed; then the connection went once more."""

    async def main() -> None:
        store = ZooKeeperStore("127.0.0.1:1", 60_000, Security(), lambda path: OPEN, 10)
        wire = Wire(store)
        heard: list[WatchEvent] = []
        store.listen(on_watch=heard.append)
        await wire.up()
        for path in ("/controller", "/feature"):
            asked = asyncio.ensure_future(store.exists(path, watch=True))
            await wire.turn()
            await wire.answer({path: 1})
            await asked
        after = {"/controller": 9, "/feature": 1}
        await wire.lose()
        await wire.up()
        await wire.answer(after, 3)
        await wire.lose()
        await wire.up()
        await wire.answer(after, 5)
        assert store.state is SessionState.CONNECTED
        assert heard == [WatchEvent(WatchKind.CHANGED, "/controller")]

    monkeypatch.setattr(session, "_READ_AT_ONCE", 1)
    asyncio.run(main())


@pytest.mark.parametrize(
    ("refusal", "requests"),
    [(None, 1 + 2 * 3 + 1), (UnimplementedError(), 1 + 2 * 3 + 601), (NoAuthError(), 1 + 2 * 3 + 601)],
)
def test_many_watches_are_armed_again_in_a_few_requests(refusal: Exception | None, requests: int) -> None:
    """A controller watches a node for each topic, and can do nothing until all of them are armed again."""

    async def main() -> None:
        store = ZooKeeperStore("127.0.0.1:1", 60_000, Security(), lambda path: OPEN, 10)
        wire = Wire(store)
        heard: list[WatchEvent | SessionState] = []
        await wire.up()
        store._watches.data |= {f"/{number}": Stat(0, 0, 1, 1) for number in range(600)}
        store._watches.data["/new"] = None
        await wire.lose()
        store.listen(on_watch=heard.append, on_session=heard.append)
        await wire.up()
        wire.refusal = refusal
        mzxids = {f"/{number}": 1 for number in range(600)}
        assert await wire.answer_all(mzxids | {"/7": 9}) == requests
        assert store.state is SessionState.CONNECTED
        changed = [WatchEvent(WatchKind.CHANGED, "/7"), WatchEvent(WatchKind.CREATED, "/new")]
        assert heard == [*changed, SessionState.CONNECTED], "whoever may ask again has heard what was missed"
        assert len(store._watches.data) == 599

    asyncio.run(main())


def test_a_session_of_many_watches_is_in_touch_all_the_time_that_it_takes_to_arm_them_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A slow ensemble, and ten thousand topics: each answer says that the session lives, not the last one alone."""

    async def main() -> None:
        store = ZooKeeperStore("127.0.0.1:1", 6000, Security(), lambda path: OPEN, 1)
        wire = Wire(store)
        now_s = asyncio.get_running_loop().time()
        store._loop = SimpleNamespace(  # type: ignore[assignment]
            time=lambda: now_s, create_future=asyncio.get_running_loop().create_future
        )
        await wire.up()
        for number in range(10):
            asked = asyncio.ensure_future(store.exists(f"/{number}", watch=True))
            await wire.turn()
            await wire.answer({})
            await asked
        await wire.lose()
        await wire.up()
        for number in (1, *[2] * 10):
            now_s += 1
            await wire.answer({}, number)
            assert not store._is_silent()
        assert store.state is SessionState.CONNECTED

    monkeypatch.setattr(session, "_READ_AT_ONCE", 1)
    asyncio.run(main())


def test_whoever_waits_for_an_answer_hears_of_the_end_of_the_session_at_once() -> None:
    """A server that fell silent says nothing more, and its connection may be held open for a quarter of an hour."""

    async def main() -> None:
        store = ZooKeeperStore("127.0.0.1:1", 6000, Security(), lambda path: OPEN, 10)
        await Wire(store).up()
        asked = [asyncio.ensure_future(store.get("/a")), asyncio.ensure_future(store.create("/b"))]
        await asyncio.sleep(0)
        store._last_contact -= 60
        with pytest.raises(SessionExpired):
            store._check_usable()
        async with asyncio.timeout(60):
            for each in asked:
                with pytest.raises(SessionExpired):
                    await each
            await store.close()

    asyncio.run(main())


def test_a_session_lasts_as_long_as_the_server_grants_and_whoever_waits_for_its_end_knows_that() -> None:
    """A server with a slow tick grants more than was asked for (minSessionTimeout). A broker that waited for its own old
    session no longer than it had asked for took that for a stranger's, and ended."""

    async def main() -> None:
        store = ZooKeeperStore("127.0.0.1:1", 6000, Security(), lambda path: OPEN, 10)
        assert store.session_timeout_ms == 6000
        for read_timeout_ms in (20_000 * 2 / 3, 4000 * 2 / 3):
            store._negotiated(read_timeout_ms * 1.5 / 1000)
            assert store.session_timeout_ms == round(read_timeout_ms * 1.5)

    asyncio.run(main())
