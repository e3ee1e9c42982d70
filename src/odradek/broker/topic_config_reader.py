"""min.insync.replicas and the rest of topics that came to this broker: read from the store, strictest until they are."""

from odradek.broker.effects import ConfigsRead, Effect, LogLine, ReadConfigs, StoreRequest, StoreResult
from odradek.broker.organs import Organ
from odradek.broker.pending_calls import PendingCalls
from odradek.broker.replica_manager import ReplicaManager
from odradek.broker.topic_configs import KEEP_EVERYTHING

RETRY_MS = 500
# Topics and partitions of one question, whose answer is taken in within one turn: some ten milliseconds.
AT_ONCE = 2_000


class TopicConfigReader(Organ):
    def __init__(self, replicas: ReplicaManager, effects: list[Effect], calls: PendingCalls) -> None:
        self.due_ms = None
        self.is_reading = False  # or waits to ask again
        self._replicas = replicas
        self._effects = effects
        self._calls = calls

    def tick(self, now_ms: int) -> None:
        if self.due_ms is not None and now_ms >= self.due_ms:
            self.read()

    def read(self) -> None:
        unread = self._replicas.unread_topics
        asked: dict[str, object] = {}
        left = AT_ONCE
        for topic, found in unread.items():
            asked[topic] = found
            left -= 1 + self._replicas.partitions_of(topic)
            if left <= 0:
                break  # the others when this is answered
        self.is_reading = bool(asked)
        self.due_ms = None
        if not asked:
            return  # they left while a failed question waited to be asked again

        def answered(result: StoreResult, now_ms: int) -> None:
            self.is_reading = False
            if not isinstance(result, ConfigsRead):
                self.is_reading = True
                self.due_ms = now_ms + RETRY_MS
                return
            for (_, topic), stored in result.configs.items():
                if unread.get(topic) is not asked[topic]:
                    continue  # told since, or deleted: what was read is older
                overrides = stored.overrides
                if ("topics", topic) in result.unreadable:
                    why = result.unreadable["topics", topic]
                    overrides = KEEP_EVERYTHING
                    said = f"nothing of {topic} is set, so nothing of it is deleted or compacted, and acks=all waits for all replicas: {why}"
                    self._effects.append(LogLine("warning", said))
                self._replicas.set_topic_overrides(topic, overrides, now_ms)

        question = ReadConfigs(tuple(("topics", topic) for topic in asked))
        self._effects.append(StoreRequest(self._calls.expect(answered), question))
