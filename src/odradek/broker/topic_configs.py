"""The overrides of topics, as far as they were read: one object, shared by the broker and its logs.

The shell makes it before the logs are loaded, and gives `settings_of` to the `LogManager`:

    topic_configs = TopicConfigs(settings)
    logs = LogManager(directories, settings, topic_settings=topic_configs.settings_of)
    broker = Broker(settings=settings, topic_configs=topic_configs, logs=logs, ...)
"""

from collections.abc import Mapping

from odradek.model.errors import ConfigurationError
from odradek.model.ids import INT32_MAX
from odradek.model.settings import (
    TOPIC_SETTINGS,
    BrokerSettings,
    TopicSettings,
    parse_value,
    unknown_setting,
)

# Of a topic whose configuration cannot be read: it may say that nothing is ever deleted, that all replicas are to have what is
# acknowledged, and that each record is flushed before.
KEEP_EVERYTHING = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "min.insync.replicas": str(INT32_MAX),
    "flush.messages": "1",
}


class TopicConfigs:
    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self._overrides: dict[str, dict[str, str]] = {}
        self._at_start: dict[str, dict[str, str]] = {}

    def at_start(self, settings: BrokerSettings, overrides: Mapping[str, Mapping[str, str]]) -> None:
        """As they stood before the logs were loaded. Recovery has to know which topics are compacted: there offsets are missing
        between batches, and elsewhere records that are missing were lost. None of them counts as known by that."""
        self.settings = settings
        self._at_start = {topic: usable(found)[0] for topic, found in overrides.items()}

    @property
    def had_topics(self) -> bool:
        """There was a topic when this broker started."""
        return bool(self._at_start)

    def is_known(self, topic: str) -> bool:
        """Its configuration was read, even if it overrides nothing."""
        return topic in self._overrides

    def settings_of(self, topic: str) -> TopicSettings:
        """Of a topic whose configuration was not read yet: as it stood at the start, else the broker's values."""
        return TopicSettings(self.settings, self._overrides.get(topic, self._at_start.get(topic)))

    def may_flush_before_ack(self, topic: str) -> bool:
        """Whether flush.messages=1 holds before the configuration is read: as it stood at the start; of a topic that was not there
        then the strictest, for a follower that fetches on acknowledges what it has not flushed (H5)."""
        return topic not in self._at_start or self.settings_of(topic).flush_messages == 1

    def set(self, topic: str, overrides: Mapping[str, str]) -> None:
        self._overrides[topic] = dict(overrides)

    def forget(self, topic: str) -> None:
        """No replica of it is here any more: a topic of that name made later has a configuration of its own."""
        self._overrides.pop(topic, None)
        self._at_start.pop(topic, None)

    def set_broker_settings(self, settings: BrokerSettings) -> None:
        self.settings = settings


def usable(overrides: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The overrides that can be applied, and what is wrong with the others: a node written by hand, or by
    somebody who knows more settings than we do."""
    good: dict[str, str] = {}
    problems: list[str] = []
    for name, text in overrides.items():
        setting = TOPIC_SETTINGS.get(name)
        if setting is None:
            problems.append(str(unknown_setting(name, TOPIC_SETTINGS, "topic")))
            continue
        try:
            parse_value(setting, text)
        except ConfigurationError as error:
            problems.append(str(error))
        else:
            good[name] = text
    return good, problems
