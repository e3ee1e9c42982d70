"""One broker's settings over its life: its file, and what was set since for it and for all brokers.

Of one setting the nearest counts: this broker's dynamic value, the dynamic value of all brokers, the file, the
default. The dynamic ones come from `/config/brokers/<id>` and `/config/brokers/<default>`, whole, whenever
somebody changed them: one of our brokers, an Apache one, or a tool that writes the nodes itself. So what
stands there was perhaps checked by nobody, or by somebody with other settings than ours: whatever cannot be
applied is left out with a line that says why, and the rest is applied.
"""

from collections.abc import Mapping
from typing import Any

from odradek.model.errors import ConfigurationError, InvalidValue
from odradek.model.settings import (
    BROKER_SETTINGS,
    OPENED_ONCE,
    PER_BROKER,
    BrokerSettings,
    attribute_name,
    parse_value,
    unknown_setting,
)

EVERY_BROKER = "<default>"
# With 0 nobody could connect any more, not even whoever wants it changed back. A broker's file may say so.
NEVER_NOTHING = ("max.connections", "max.connection.creation.rate")
# Threads are started and stopped in steps (KIP-226); with the words of each refusal.
THREAD_COUNTS = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
CLEANER_THREADS = "log.cleaner.threads"
# Where what stands there cannot be read, and was not read before: it may say that nothing is ever deleted.
DELETE_NOTHING = {"log.cleanup.policy": "delete", "log.retention.bytes": "-1", "log.retention.ms": "-1"}


class DynamicSettings:
    def __init__(self, static: BrokerSettings) -> None:
        self.static = static  # as the file has them
        self.current = static
        self.of_broker: Mapping[str, str] = {}
        self.of_all: Mapping[str, str] = {}
        self._were_read: set[str] = set()

    def cannot_be_read(self, entity_name: str) -> list[str]:
        """As `change`. What was read before goes on counting."""
        return [] if entity_name in self._were_read else self.change(entity_name, DELETE_NOTHING)

    def change(self, entity_name: str, config: Mapping[str, str]) -> list[str]:
        """Takes over what stands in `/config/brokers/<entity_name>` now; what is wrong with it, in sentences.

        `current` is another object afterwards if anything changed that counts.
        """
        self._were_read.add(entity_name)
        if entity_name == EVERY_BROKER:
            if config == self.of_all:
                return []  # told again, after a new session: said and done before
            self.of_all = dict(config)
        elif config == self.of_broker:
            return []
        else:
            self.of_broker = dict(config)
        problems: list[str] = []
        changes: dict[str, str] = {}
        for level, values in ((EVERY_BROKER, self.of_all), ("this broker", self.of_broker)):
            for name, text in sorted(values.items()):
                problem = why_not_dynamic(name, text, is_default=level == EVERY_BROKER)
                if problem is None:
                    changes[name] = text
                elif values is (self.of_all if entity_name == EVERY_BROKER else self.of_broker):
                    problems.append(f"{name} of {level} is left out: {problem}")
        settings = self._with(changes, problems)
        if settings != self.current:
            self.current = settings
        return problems

    def _with(self, changes: dict[str, str], problems: list[str]) -> BrokerSettings:
        """Each value can be; whether all of them together can, only the whole tells."""
        try:
            return self.static.with_changes(changes)
        except ConfigurationError:
            settings = self.static
            for name, text in changes.items():
                try:
                    settings = settings.with_changes({name: text})
                except ConfigurationError as error:
                    problems.append(f"{name} is left out: {error}")
            return settings


def why_not_dynamic(name: str, text: str, *, is_default: bool) -> str | None:
    """What keeps a value under `/config/brokers` from being applied; None: nothing."""
    setting = BROKER_SETTINGS.get(name)
    if setting is None:
        return str(unknown_setting(name, BROKER_SETTINGS, "broker"))
    if not setting.dynamic:
        return "it cannot change while the broker runs; set it in the broker's file"
    if name in OPENED_ONCE:
        return "this broker opens its listeners once, at its start; set it in the broker's file"
    if is_default and name in PER_BROKER:
        return "it is of one broker, not of all"
    try:
        check_somebody_may_connect(name, parse_value(setting, text))
    except ConfigurationError as error:
        return str(error)
    return None


def check_somebody_may_connect(name: str, value: Any) -> None:
    if name in NEVER_NOTHING and value <= 0:
        raise InvalidValue(
            f"{name}={value}: no client could connect, not even to change it back; expected 1 or more",
            _as_apache(f"Invalid {name} {value}"),
        )


def check_thread_counts(now: BrokerSettings, changed: BrokerSettings) -> None:
    """At most twice as many as there are and at least half of them, one in any case, as in Apache."""
    for name in (*THREAD_COUNTS, CLEANER_THREADS):
        before, count = getattr(now, attribute_name(name)), getattr(changed, attribute_name(name))
        if count == before or max(before // 2, 1) <= count <= before * 2:
            continue
        if name == CLEANER_THREADS:
            problem = (
                "Log cleaner threads should be at least 1"
                if count < 1
                else f"Log cleaner threads cannot be reduced to less than half the current value {before}"
                if count < before
                else f"Log cleaner threads cannot be increased to more than double the current value {before}"
            )
        else:
            problem = f"Dynamic thread count update validation failed for {name}={count}, value should " + (
                "be at least 1"
                if count < 1
                else f"be at least half the current value {before}"
                if count < before
                else f"not be greater than double the current value {before}"
            )
        raise InvalidValue(problem, _as_apache(problem))


def _as_apache(problem: str) -> str:
    """What its validators throw comes out wrapped."""
    exception = "org.apache.kafka.common.config.ConfigException"
    return f"Invalid value {exception}: {problem} for configuration Invalid dynamic configuration"
