"""What the views need of a world and of its brokers (`world.World`, `world.SimBroker`)."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import NamedTuple, Protocol

from odradek.log.memory_files import MemoryDisk
from odradek.model.ids import BrokerId, TopicPartition
from odradek.server.broker_runtime import BrokerRuntime
from odradek.sim.loop import Host, SimLoop
from odradek.sim.store import SimStore
from odradek.sim.topics import Topics


class Damage(NamedTuple):
    host: Host  # the process at the time
    is_there: Callable[[], bool]


class ViewedBroker(Protocol):
    @property
    def broker_id(self) -> BrokerId: ...

    @property
    def disks(self) -> Sequence[MemoryDisk]: ...

    @property
    def host(self) -> Host | None: ...

    @property
    def runtime(self) -> BrokerRuntime | None: ...

    @property
    def is_running(self) -> bool: ...

    @property
    def is_serving(self) -> bool: ...


class ViewedWorld(Protocol):
    @property
    def brokers(self) -> Mapping[BrokerId, ViewedBroker]: ...

    @property
    def settings(self) -> Mapping[str, str]: ...

    @property
    def store(self) -> SimStore: ...

    @property
    def topics(self) -> Topics: ...

    @property
    def loop(self) -> SimLoop: ...

    @property
    def is_healed(self) -> bool: ...

    @property
    def exempt(self) -> MutableMapping[tuple[BrokerId, TopicPartition], int]: ...

    @property
    def damage(self) -> MutableMapping[tuple[BrokerId, TopicPartition], Damage]: ...
