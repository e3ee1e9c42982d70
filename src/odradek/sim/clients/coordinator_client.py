"""Who asks the coordinator of one group or transactional id, wherever that is."""

from typing import Any

from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages import find_coordinator
from odradek.sim.clients.client import Address, Pauses, RequestFailed, SimClient

OF_GROUPS, OF_TRANSACTIONS = 0, 1


class CoordinatorClient:
    def __init__(self, client: SimClient, name: str, kind: int) -> None:
        self._client = client
        self._name = name
        self._kind = kind
        self._coordinator: Address | None = None

    @property
    def now_s(self) -> float:
        return self._client.loop.time()

    async def ask(self, message: Any, version: int | None = None) -> Any:
        """RequestFailed: nobody can say what came of it."""
        try:
            return await self._client.ask(await self.found(), message, version)
        except RequestFailed:
            self._coordinator = None
            raise

    def moved(self) -> None:
        self._coordinator = None

    @property
    def coordinator(self) -> Address | None:
        """None: nobody that is known."""
        return self._coordinator

    async def found(self) -> Address:
        request = find_coordinator.FindCoordinatorRequest(key_type=self._kind, coordinator_keys=[self._name])
        pauses = Pauses()
        while self._coordinator is None:
            await self._client.refresh([])
            for address in list(self._client.brokers.values()):
                try:
                    row = (await self._client.ask(address, request)).coordinators[0]
                except RequestFailed:
                    continue
                if row.error_code == ErrorCode.NONE:
                    self._coordinator = row.host, row.port
                    break
            else:
                await pauses.pause()
        return self._coordinator
