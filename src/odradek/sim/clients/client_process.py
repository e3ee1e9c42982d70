"""One process of the clients' machine, started again as another one."""

from typing import Protocol

from odradek.sim.clients.client import SimClient
from odradek.sim.loop import Host
from odradek.sim.plan import Plan
from odradek.sim.world import World


class Workplace(Protocol):
    """What every process needs of the workload it is of."""

    world: World
    plan: Plan
    is_over: bool

    def new_host(self) -> Host: ...

    def client(self) -> SimClient: ...


class ClientProcess:
    def __init__(self, workload: Workplace) -> None:
        self.workload = workload
        self.lives = 0
        self.host: Host | None = None

    @property
    def is_running(self) -> bool:
        return self.host is not None and self.host.is_alive

    def start(self) -> None:
        assert not self.is_running
        self.host = self.workload.new_host()
        self.lives += 1
        self.workload.world.spawn(self.host, self.live(self.host))

    def kill(self) -> None:
        """kill -9: the kernel closes its sockets, and nobody tells the brokers anything else."""
        if self.host is not None and self.host.is_alive:
            self.host.kill()
            self.workload.world.network.host_killed(self.host)

    def pause(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after `seconds`. Its connections stay open, and what comes over them is read when it goes on."""
        assert self.host is not None
        self.host.pause(self.workload.world.loop.time() + seconds)

    def go_on(self) -> None:
        """SIGCONT, if it stands still."""
        loop = self.workload.world.loop
        if self.host is not None and self.host.paused_until > loop.time():
            self.host.pause(loop.time())
            loop.go_on(self.host)

    async def live(self, host: Host) -> None:
        raise NotImplementedError
