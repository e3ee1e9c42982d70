"""The controller a broker process may be: it stands for election whenever nobody leads, and gives up in
order.

What a controller does while it leads is `controller_term`, imported when it is first needed.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from odradek.broker.effects import ControllerRequest
from odradek.client.receive_buffers import BufferPool
from odradek.model.controller_requests import ControllerAnswer
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, ControllerEpoch
from odradek.model.settings import BrokerSettings
from odradek.server.environment import Environment
from odradek.server.journal import Journal
from odradek.server.log_limits import LimitedLog
from odradek.server.metrics import Metrics
from odradek.store import api, layout, transactions
from odradek.store.fields import Unreadable

if TYPE_CHECKING:
    from odradek.controller.core import ControllerCore
    from odradek.server.controller_term import ControllerTerm

logger = logging.getLogger(__name__)

RETRY_S = 0.1
# After a mistake of our own: others get their chance, and the log is not flooded.
PAUSE_AFTER_MISTAKE_S = 1.0


class ControllerRuntime:
    def __init__(
        self,
        *,
        broker: BrokerId,
        environment: Environment,
        settings: BrokerSettings,
        pool: BufferPool,
        inter_broker_listener: str,
        journal: Journal,
        log: LimitedLog,
        metrics: Metrics,
        after_turn: Callable[[], None],
        on_answer: Callable[[int, ControllerAnswer], None],
        on_term: Callable[[ControllerEpoch | None], None],
    ) -> None:
        self._broker = broker
        self._environment = environment
        self._settings = settings
        self._pool = pool
        self._listener = inter_broker_listener
        self._journal = journal
        self._log = log
        self._metrics = metrics
        self._after_turn = after_turn
        self._on_answer = on_answer
        self._on_term = on_term
        self._vacant = asyncio.Event()
        self.term: ControllerTerm | None = None
        self._is_standing = False
        self._is_stale_suspected = False

    # --- what the broker around it says

    @property
    def is_leading(self) -> bool:
        return self.term is not None

    @property
    def core(self) -> "ControllerCore | None":
        """For questions only (what-if, health): forks of it may be asked, it itself must not be stepped. None as well
        while a thread steps it."""
        term = self.term
        return None if term is None or not term.is_loaded or term.is_aside else term.core

    def controller_seen(self, broker: BrokerId | None) -> None:
        """Who holds `/controller`, as the store said."""
        if broker is None:
            self._vacant.set()
            if self.term is not None:
                self.term.controller_missed()
        elif broker == self._broker and self.term is None:
            # A node of ours that we do not lead by: of an earlier session, or of an election whose answer
            # was lost. To return early here left clusters without a controller (KAFKA-13407). While we stand it may
            # be of this election, whose answer says so.
            self._is_stale_suspected = True
            if self._is_standing:
                self._vacant.clear()
            else:
                self._vacant.set()
        else:
            self._vacant.clear()
            if self.term is not None and broker != self._broker:
                self.term.controller_seen(broker)

    def ask(self, request: ControllerRequest) -> None:
        """A request of a broker; answered once by `on_answer`."""
        if self.term is None:
            self._on_answer(request.request_id, request.ask.refused(ErrorCode.NOT_CONTROLLER))
        else:
            self.term.ask(request)

    def unanswered(self) -> Mapping[BrokerId, int]:
        """Requests of this term that brokers have not answered yet."""
        return {} if self.term is None else self.term.unanswered()

    # --- the life of one session

    async def run(self, store: api.Store) -> None:
        """Stands whenever nobody is controller. Ends with SessionExpired, or by cancellation."""
        try:
            while True:
                await self._vacant.wait()
                self._vacant.clear()
                if self._is_stale_suspected:
                    self._is_stale_suspected = False
                    await self._give_up_stale(store)
                    continue
                term = await self._stand(store)
                if term is not None:
                    await self._lead(store, term)
        finally:
            self._vacant.clear()

    async def _stand(self, store: api.Store) -> "ControllerTerm | None":
        """Both fences in one transaction; None when somebody else was first."""
        self._is_standing = True
        try:
            try:
                node = await store.get(layout.CONTROLLER_EPOCH)
            except api.NoNode:
                value = layout.encode_controller_epoch(ControllerEpoch(0))
                await store.write(
                    [api.ConditionalOps((api.Create(layout.CONTROLLER_EPOCH, value),))], fence=None
                )
                node = await store.get(layout.CONTROLLER_EPOCH)
            epoch = ControllerEpoch(layout.decode_controller_epoch(node.data) + 1)
            applied = await store.multi(
                transactions.become_controller(
                    self._broker,
                    epoch,
                    expected_epoch_version=node.stat.version,
                    timestamp_ms=self._environment.clock.now_ms(),
                )
            )
        except api.NodeExists:
            if self._is_stale_suspected:  # heard of meanwhile, and not to be told again
                self._vacant.set()
            return None
        except (api.BadVersion, api.NoNode) as error:
            # The epoch was moved, by hand perhaps, and nobody held /controller: it may never be told of again.
            self._log.warning("election", f"the election is held again: {error}")
            await asyncio.sleep(RETRY_S)
            self._vacant.set()
            return None
        except Unreadable as error:
            # Nobody leads until it is mended; whoever leads partitions goes on doing so.
            self._log.warning(
                "election",
                f"no election can be held: {error}. Set it to a number above every controller_epoch in the states "
                "of partitions",
            )
            await asyncio.sleep(PAUSE_AFTER_MISTAKE_S)
            self._vacant.set()
            return None
        except api.StoreUnavailable as error:
            self._log.warning("election", f"the election cannot be held: {error}")
            await asyncio.sleep(RETRY_S)
            await self._give_up_stale(store)
            return None
        finally:
            self._is_standing = False
        self._is_stale_suspected = False
        stat = applied[1].stat
        assert stat is not None
        self._metrics.controller_elections += 1
        logger.info("[Controller id=%d] elected with epoch %d", self._broker, epoch)
        return self._make_term(store, epoch, stat.version)

    def _make_term(self, store: api.Store, epoch: ControllerEpoch, epoch_version: int) -> "ControllerTerm":
        from odradek.server.controller_term import ControllerTerm

        return ControllerTerm(
            broker=self._broker,
            epoch=epoch,
            epoch_version=epoch_version,
            store=store,
            environment=self._environment,
            settings=self._settings,
            pool=self._pool,
            inter_broker_listener=self._listener,
            journal=self._journal,
            log=self._log,
            metrics=self._metrics,
            after_turn=self._after_turn,
            on_answer=self._on_answer,
        )

    async def _give_up_stale(self, store: api.Store) -> None:
        """Deletes `/controller` where this session holds it without a term. Whoever sees it then stands."""
        while True:
            try:
                node = await store.get(layout.CONTROLLER)
                if node.stat.ephemeral_owner == store.session_id:
                    await store.delete(layout.CONTROLLER, node.stat.version)
                    logger.info("[Controller id=%d] gave up a /controller without a term", self._broker)
                # Of another session: it goes with that session, and then we hear of it.
                return
            except (api.NoNode, api.BadVersion):
                self._vacant.set()
                return
            except api.StoreUnavailable:
                await asyncio.sleep(RETRY_S)

    async def _lead(self, store: api.Store, term: "ControllerTerm") -> None:
        from odradek.server.controller_term import Resigning

        self.term = term
        self._on_term(term.epoch)
        reason = "the broker stops"
        try:
            await term.serve()
        except asyncio.CancelledError as cancelled:
            if store.state in (api.SessionState.EXPIRED, api.SessionState.CLOSED):
                reason = "its session with the store has ended"
            elif cancelled.args:
                reason = str(cancelled.args[0])
            raise
        except Resigning as resigning:
            reason = str(resigning)
            if resigning.is_internal_error:
                self._log.warning("controller", f"[Controller id={self._broker}] resigns: {reason}")
                await self._end_term(store, term, reason)
                await asyncio.sleep(PAUSE_AFTER_MISTAKE_S)
        except api.SessionExpired:
            reason = "its session with the store has ended"
            raise
        except (api.NotAllowed, api.TooLarge) as error:
            # It will be refused again, whoever leads: others may be allowed to, and the store is to have time for brokers.
            reason = str(error)
            self._log.warning("controller", f"[Controller id={self._broker}] resigns: {reason}")
            await self._end_term(store, term, reason)
            await asyncio.sleep(PAUSE_AFTER_MISTAKE_S)
        except api.StoreUnavailable as error:
            # Whether the last write happened is not known, so nothing we remember can be trusted.
            reason = f"the store {error.verdict}: {error}"
        except Exception as error:
            reason = f"a mistake of its own: {error!r}"
            self._log.failure("controller", f"[Controller id={self._broker}] resigns: {error!r}", error)
            await self._end_term(store, term, reason)
            await asyncio.sleep(PAUSE_AFTER_MISTAKE_S)
        finally:
            await self._end_term(store, term, reason)

    async def _end_term(self, store: api.Store, term: "ControllerTerm", reason: str) -> None:
        if self.term is not term:
            return
        self.term = None
        self._metrics.controller_resignations += 1
        logger.info("[Controller id=%d epoch=%d] resigned: %s", self._broker, term.epoch, reason)
        unanswered = term.close(reason)
        self._on_term(None)
        for request_id, ask in unanswered.items():
            self._on_answer(request_id, ask.refused(ErrorCode.NOT_CONTROLLER))
        self._after_turn()
        while store.state is api.SessionState.CONNECTED:
            try:
                await store.multi(transactions.resign_controller(term.epoch_version))
                return
            except api.SessionExpired:
                return
            except (api.NoNode, api.BadVersion):
                # Somebody else's by now; or an epoch moved by hand, with our node still there.
                await self._give_up_stale(store)
                return
            except api.StoreUnavailable:
                await asyncio.sleep(RETRY_S)
        # Out of touch: the session may outlive this, and /controller with it. Nobody could lead then, so `run` gives
        # the node up as soon as the store can be reached.
        self._is_stale_suspected = True
        self._vacant.set()
