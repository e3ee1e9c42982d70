"""How a broker makes itself known, and what it does when it meets itself."""

import asyncio
import logging

import pytest

from odradek.model.cluster import Endpoint
from odradek.model.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId
from odradek.model.values import replace
from odradek.server import registration
from odradek.server.environment import Environment
from odradek.server.registration import BrokerIdInUse, prepare_tree, register, register_again, rewrite
from odradek.store import layout
from odradek.store.api import Stat
from odradek.store.memory_session import MemoryEnsemble

ME = BrokerId(7)
LONG_MS = 120_000  # for so long an old session is waited for: longer than any machine is slow
HERE = (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092),)


def test_the_first_broker_makes_the_tree_and_the_others_find_it() -> None:
    async def scenario() -> None:
        ensemble, environment = MemoryEnsemble(), Environment(asyncio.get_running_loop())
        first, second = ensemble.open(), ensemble.open()

        ids = await asyncio.gather(prepare_tree(first, environment), prepare_tree(second, environment))

        assert ids[0] == ids[1]
        assert len(ids[0]) == 22
        for path in layout.PERSISTENT_PATHS:
            assert await first.exists(path) is not None, path
        assert (await first.get(layout.CONTROLLER_EPOCH)).data == b"0"

    asyncio.run(scenario())


def test_a_cluster_that_lacks_a_node_gets_it_when_a_broker_starts() -> None:
    """One that Apache's before 2.7 made has no /config/ips, and no quota of an address could ever be set. Which producer ids
    were given out nobody knows where that node is gone: it is not begun anew."""

    async def scenario() -> None:
        ensemble, environment = MemoryEnsemble(), Environment(asyncio.get_running_loop())
        store = ensemble.open()
        cluster = await prepare_tree(store, environment)
        for path in ("/config/ips", layout.ISR_CHANGES, layout.PRODUCER_ID_BLOCK):
            await store.delete(path)

        assert await prepare_tree(store, environment, cluster) == cluster

        found = await store.get_many(layout.PERSISTENT_PATHS)
        missing = [p for p, node in zip(layout.PERSISTENT_PATHS, found, strict=True) if node is None]
        assert missing == [layout.PRODUCER_ID_BLOCK]

    asyncio.run(scenario())


def test_who_registers_again_claims_no_clean_end_of_the_life_before() -> None:
    """A controller that never knew that life would believe it, and count on replicas that are not whole."""

    async def scenario() -> None:
        ensemble, environment = MemoryEnsemble(), Environment(asyncio.get_running_loop())
        store = ensemble.open()
        await prepare_tree(store, environment)
        made = await register(store, environment, ME, HERE, "rack-1", lambda: BrokerEpoch(5))

        again = await register_again(store, environment, made)

        assert again == layout.decode_registration(ME, await store.get(layout.broker_path(ME)))
        assert again.epoch > made.epoch and (again.rack, again.clean_epoch) == ("rack-1", -1)

    asyncio.run(scenario())


def test_who_moves_to_other_addresses_is_the_same_incarnation_with_all_that_it_claimed() -> None:
    async def scenario() -> None:
        ensemble, environment = MemoryEnsemble(), Environment(asyncio.get_running_loop())
        store = ensemble.open()
        await prepare_tree(store, environment)
        made = await register(store, environment, ME, HERE, "rack-1", lambda: BrokerEpoch(5))
        there = (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.2", 9093),)

        moved = await rewrite(store, environment, made, there)

        assert moved == layout.decode_registration(ME, await store.get(layout.broker_path(ME)))
        assert moved == replace(made, endpoints=there)

    asyncio.run(scenario())


def test_the_epoch_of_a_broker_is_the_transaction_that_made_its_node() -> None:
    async def scenario() -> None:
        ensemble, environment = MemoryEnsemble(), Environment(asyncio.get_running_loop())
        store = ensemble.open()
        await prepare_tree(store, environment)

        made = await register(store, environment, ME, HERE, "rack-1", lambda: BrokerEpoch(5))

        node = await store.get(layout.broker_path(ME))
        assert made == layout.decode_registration(ME, node)
        assert (made.epoch, made.rack, made.clean_epoch) == (node.stat.czxid, "rack-1", 5)
        assert node.stat.version == 1, "created and set in one transaction, as Apache does"
        assert node.stat.ephemeral_owner == store.session_id

    asyncio.run(scenario())


def test_an_old_session_of_ours_is_waited_for_and_said(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        ensemble, environment = MemoryEnsemble(), Environment(asyncio.get_running_loop())
        old, new = ensemble.open(), ensemble.open(LONG_MS)
        await prepare_tree(old, environment)
        before = await register(old, environment, ME, HERE, None)

        waiting = asyncio.ensure_future(register(new, environment, ME, HERE, None))
        while "still registered" not in caplog.text:
            await asyncio.sleep(0)
        assert not waiting.done()
        ensemble.expire(old.session_id)
        after = await asyncio.wait_for(waiting, 60)

        assert after.epoch > before.epoch
        assert "broker 7 is still registered at 127.0.0.1:9092" in caplog.text
        assert sum(r.levelno == logging.WARNING for r in caplog.records) == 1

    asyncio.run(scenario())


def test_who_finds_damage_while_an_old_session_is_waited_for_claims_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It claimed what held when it began to wait, and stayed eligible without the log that it had given up (seed 2589)."""

    async def scenario() -> None:
        ensemble, environment = MemoryEnsemble(), Environment(asyncio.get_running_loop())
        old, new = ensemble.open(), ensemble.open(LONG_MS)
        await prepare_tree(old, environment)
        before = await register(old, environment, ME, HERE, None)
        claimed = before.epoch

        waiting = asyncio.ensure_future(register(new, environment, ME, HERE, None, lambda: claimed))
        while "still registered" not in caplog.text:
            await asyncio.sleep(0)
        claimed = UNKNOWN_BROKER_EPOCH
        ensemble.expire(old.session_id)

        assert (await asyncio.wait_for(waiting, 60)).clean_epoch == UNKNOWN_BROKER_EPOCH
        node = await new.get(layout.broker_path(ME))
        assert layout.decode_registration(ME, node).clean_epoch == UNKNOWN_BROKER_EPOCH

    asyncio.run(scenario())


def test_an_old_session_that_ends_while_it_is_looked_for_is_not_waited_for() -> None:
    """Its end is told before the answer to the look that armed the watch has been taken."""

    async def scenario() -> None:
        ensemble, environment = MemoryEnsemble(), Environment(asyncio.get_running_loop())
        old, new = ensemble.open(), ensemble.open()
        await prepare_tree(old, environment)
        before = await register(old, environment, ME, HERE, None)
        exists = new.exists

        async def overtaken(path: str, *, watch: bool = False) -> Stat | None:
            found = await exists(path, watch=watch)
            if watch and found is not None:
                gone = asyncio.Event()
                stop = new.listen(on_watch=lambda event: gone.set())
                ensemble.expire(old.session_id)
                await gone.wait()
                stop()
            return found

        new.exists = overtaken  # type: ignore[method-assign]
        async with asyncio.timeout(5):  # of nine
            after = await register(new, environment, ME, HERE, None)
        assert after.epoch > before.epoch

    asyncio.run(scenario())


def test_an_id_somebody_else_lives_under_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "PATIENCE_MS", 10)

    async def scenario() -> None:
        ensemble, environment = MemoryEnsemble(), Environment(asyncio.get_running_loop())
        other, mine = ensemble.open(), ensemble.open(10)
        await prepare_tree(other, environment)
        await register(other, environment, ME, HERE, None)

        with pytest.raises(BrokerIdInUse, match="by a process that lives"):
            await register(mine, environment, ME, HERE, None)

    asyncio.run(scenario())


def test_an_answer_that_was_lost_is_no_stranger() -> None:
    """Our node is there because our own call made it, though we heard StoreUnavailable."""

    async def scenario() -> None:
        ensemble, environment = MemoryEnsemble(), Environment(asyncio.get_running_loop())
        store = ensemble.open()
        await prepare_tree(store, environment)
        first = await register(store, environment, ME, HERE, "rack-1", lambda: BrokerEpoch(5))

        again = await register(store, environment, ME, HERE, None)
        assert again == first, "it claims what stands there, which is what everybody reads"

    asyncio.run(scenario())


def test_a_node_that_somebody_made_by_hand_is_not_waited_for() -> None:
    """No session ends that could take it away."""

    async def scenario() -> None:
        ensemble, environment = MemoryEnsemble(), Environment(asyncio.get_running_loop())
        store = ensemble.open(600_000)  # whoever waited for it would wait as long
        await prepare_tree(store, environment)
        await store.create(layout.broker_path(ME), b"{}")
        with pytest.raises(BrokerIdInUse, match="/brokers/ids/7 is not ephemeral: it was created by hand"):
            await asyncio.wait_for(register(store, environment, ME, HERE, None), 60)

    asyncio.run(scenario())
