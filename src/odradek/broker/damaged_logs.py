"""Logs that were found damaged: out of service, and fetched anew from their leader as soon as nobody counts on them.

A damaged log is not cut and not served. Its broker registers anew: that is failure and start-up for the controller, in
one event, so another member of the ISR is elected, this broker is in no ISR any more that has another member, and it is
eligible for nothing (KIP-966). LeaderAndIsr of the new broker epoch says so, and only on that word the log is set aside
(`-stray`) and an empty one begun in its place, which joins the ISR when it has caught up. A word of the old epoch would
not do: a leader may just be asking to take us in on the strength of what we had (KIP-903).

Who is in the ISR after that is the last: nobody else is known to have everything. It stays offline, and the log where it
lies, until a person decides (an unclean election, or a copy of it that is good).
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from odradek.broker.effects import Effect, LogLine, RegisterAgain
from odradek.broker.metadata_cache import MetadataCache
from odradek.log.errors import StorageError
from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerEpoch, BrokerId, TopicPartition

if TYPE_CHECKING:
    from odradek.log.log_manager import LogManager


class DamagedLogs:
    def __init__(
        self,
        broker: BrokerId,
        logs: "LogManager",
        metadata: MetadataCache,
        effects: list[Effect],
        broker_epoch: Callable[[], BrokerEpoch],
    ) -> None:
        self.broker = broker
        self._logs = logs
        self._metadata = metadata
        self._effects = effects
        self._broker_epoch = broker_epoch
        # In which epoch of ours it was found; those found at the start are not here.
        self._found_in: dict[TopicPartition, BrokerEpoch] = {}
        # Told of it as a member of the ISR, in this leader epoch: to be told again once we are out of it.
        self._declined: dict[TopicPartition, int] = {}

    def found(self, logs: Iterable[tuple[TopicPartition, StorageError]]) -> None:
        """While it was in use."""
        named = []
        for topic_partition, fault in logs:
            self._found_in[topic_partition] = self._broker_epoch()
            named.append(str(topic_partition))
            self._effects.append(
                LogLine("error", f"{topic_partition}: {fault.message}: this replica is not used any more")
            )
        if named:
            self._effects.append(RegisterAgain(f"the log of {', '.join(named)} is damaged"))

    def recreate(self, topic_partition: TopicPartition, told: LeaderAndIsr, now_ms: int) -> bool:
        """Told of a replica that is damaged: True if its log was set aside, and an empty one may be made."""
        if not self.is_on_a_good_disk(topic_partition) or self._logs.is_unopened(topic_partition):
            return False
        fault, home = self._logs.refused[topic_partition], self._logs.directory_of(topic_partition)
        if self._found_in.get(topic_partition) == self._broker_epoch():
            return False  # the controller has not heard of our new incarnation yet
        if not self.is_out(told.leader, told.isr):
            self._declined[topic_partition] = told.leader_epoch
            self._effects.append(
                LogLine(
                    "error",
                    f"{topic_partition}: {fault.message}. This replica is in the ISR {list(told.isr)}, leader "
                    f"{told.leader}: what it holds may be the only copy, so it stays offline, as it lies in {home}",
                )
            )
            return False
        line = self._logs.recreate(topic_partition, now_ms)
        self.forget(topic_partition)
        self._effects.append(
            LogLine("warning", f"{line}: {fault.message}. Fetched again from broker {told.leader}")
        )
        return True

    def forget(self, topic_partition: TopicPartition) -> None:
        """Its log is here no more. A later one of that name is another, and not damaged."""
        self._found_in.pop(topic_partition, None)
        self._declined.pop(topic_partition, None)

    def is_on_a_good_disk(self, topic_partition: TopicPartition) -> bool:
        """A damaged log that can be renamed: set aside, or deleted for whoever wants it gone."""
        logs = self._logs
        return (
            topic_partition in logs.refused
            and logs.directory_of(topic_partition) not in logs.offline_directories
        )

    def metadata_changed(self) -> None:
        """By now somebody else leads, and we are in the ISR no more: a controller tells that to those that are online,
        which a damaged replica is not. So it is to be told in another incarnation of ours, unless its disk is gone by now: then
        it could not be set aside."""
        for topic_partition, declined_at in list(self._declined.items()):
            known = self._metadata.partition(*topic_partition)
            if (
                known is not None
                and self.broker in known.replicas
                and self.is_out(known.leader, known.isr)
                and known.leader_epoch > declined_at
                and self.is_on_a_good_disk(topic_partition)
            ):
                self._declined[topic_partition] = known.leader_epoch
                self._effects.append(
                    RegisterAgain(f"{topic_partition} is damaged here, and broker {known.leader} leads it")
                )

    def is_out(self, leader: int, isr: Iterable[int]) -> bool:
        """Nobody counts on what this replica holds."""
        return leader >= 0 and leader != self.broker and self.broker not in isr
