"""Resources that have a configuration: which there are, how they are named, what may be set.

Shared by DescribeConfigs, AlterConfigs and IncrementalAlterConfigs. What stood in a node before is not judged
again: somebody may have put it there who knows more settings than we do, and a change of another setting must
still go through.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.broker.dynamic_settings import check_somebody_may_connect, check_thread_counts
from odradek.broker.topic_configs import usable
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ConfigurationError, InvalidValue, ProtocolError
from odradek.model.listeners import parse_advertised, parse_listeners
from odradek.model.settings import (
    BROKER_SETTINGS,
    OPENED_ONCE,
    PER_BROKER,
    TOPIC_SETTINGS,
    WHOLE_NUMBER,
    Setting,
    TopicSettings,
    parse_value,
    unknown_setting,
)
from odradek.model.topic_names import check_topic_name

if TYPE_CHECKING:
    from odradek.broker.core import Broker

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
# Of clusters with KRaft alone.
KRAFT_ONLY = {16: "client-metrics", 32: "groups"}
DEFAULT_NAME = "<default>"
ADVERTISED = "advertised.listeners"
KINDS = {TOPIC: "topics", BROKER: "brokers"}

# Certificates and keys: Apache changes them only for one listener each (SslConfigs.RECONFIGURABLE_CONFIGS).
PER_LISTENER = frozenset(
    name
    for name in BROKER_SETTINGS
    if name.startswith(("ssl.keystore.", "ssl.truststore.")) or name == "ssl.key.password"
)

Resource = tuple[int, str]  # (type, name)


def entity_of(resource_type: int, name: str) -> tuple[str, str]:
    """Kind and name of its node in the store; the broker "" stands for all. Of a broker: its number as everybody writes it."""
    if resource_type == BROKER:
        name = str(int(name)) if name else DEFAULT_NAME
    return KINDS[resource_type], name


def setting_of(resource_type: int, name: str) -> Setting | None:
    return (TOPIC_SETTINGS if resource_type == TOPIC else BROKER_SETTINGS).get(name)


def check_is_this_broker(broker: "Broker", name: str, *, noun: str = "Node", or_else: str = ",") -> None:
    """`noun` and `or_else` are how Apache says it to those who describe, and to those who alter."""
    if not WHOLE_NUMBER.fullmatch(name):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"{noun} id must be an integer, but it is: {name}")
    if int(name) != broker.broker_id:
        raise ProtocolError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.broker_id}{or_else} but received {name}",
        )


def unknown_type(resource_type: int, words: str) -> ProtocolError:
    kind = KRAFT_ONLY.get(resource_type)
    if kind is not None:
        words = f"Config type {kind} is only supported on KRaft clusters"
    return ProtocolError(ErrorCode.INVALID_REQUEST, words)


def check_topic(broker: "Broker", name: str, message: str) -> None:
    check_topic_name(name)
    check_topic_is_known(broker, name, message)


def check_topic_is_known(broker: "Broker", name: str, message: str) -> None:
    """Who alters is not told what is wrong with the name, as in Apache."""
    if name not in broker.metadata.topics:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


def check_topic_overrides(
    broker: "Broker", overrides: Mapping[str, str], stored: Mapping[str, str] | None = None
) -> None:
    """What would be stored of a topic, but for what is in `stored` already. InvalidValue if a value cannot be."""
    for name, text in overrides.items():
        if stored is not None and stored.get(name) == text:
            continue
        setting = TOPIC_SETTINGS.get(name)
        if setting is None:
            guess = str(unknown_setting(name, TOPIC_SETTINGS, "topic")).partition("did you mean ")[2]
            hint = f"; did you mean {guess}" if guess else ""
            raise ProtocolError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}{hint}")
        parse_value(setting, text)
    settings = TopicSettings(broker.settings, usable(overrides)[0])
    if settings.min_compaction_lag_ms > settings.max_compaction_lag_ms:
        raise ProtocolError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({settings.min_compaction_lag_ms}) > "
            f"max.compaction.lag.ms ({settings.max_compaction_lag_ms})",
        )
    if settings.remote_storage_enable:
        raise ProtocolError(
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote "
            "log storage.",
        )


def check_broker_overrides(
    broker: "Broker", name: str, overrides: Mapping[str, str], stored: Mapping[str, str]
) -> None:
    """The same of this broker, or of all (`name` is empty)."""
    changed = {key: text for key, text in overrides.items() if stored.get(key) != text}
    for key in changed:
        if key not in BROKER_SETTINGS:
            # Apache keeps any key for plug-ins of its own; there are none here, so it is a slip of the pen.
            raise ProtocolError(
                ErrorCode.INVALID_CONFIG, str(unknown_setting(key, BROKER_SETTINGS, "broker"))
            )
    fixed = sorted(key for key in changed if not BROKER_SETTINGS[key].dynamic)
    if fixed:
        raise InvalidValue(f"Cannot update these configs dynamically: Set({', '.join(fixed)})")
    security = sorted(key for key in changed if key in PER_LISTENER)
    if security:
        raise InvalidValue(
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"HashSet({', '.join(security)})"
        )
    foreign = sorted(
        key for key in changed if BROKER_SETTINGS[key].type == "CLASS" or key == "metric.reporters"
    )
    for key in foreign:
        if changed[key] and changed[key] != BROKER_SETTINGS[key].default:
            # The sentence of an Apache broker that does not have it.
            raise InvalidValue(
                f"Invalid value {changed[key]} for configuration {key}: Class {changed[key]} could not be found."
            )
    secret = sorted(key for key in changed if BROKER_SETTINGS[key].is_sensitive)
    if secret:
        raise InvalidValue(
            f"{', '.join(secret)}: no secret is kept in the store; set it in the broker's file"
        )
    of_one = sorted(key for key in changed if key in PER_BROKER)
    if of_one and not name:
        raise InvalidValue(
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"Set({', '.join(of_one)})",
        )
    opened_once = sorted(key for key in changed if key in OPENED_ONCE)
    if opened_once:
        raise InvalidValue(
            f"{', '.join(opened_once)}: this broker opens its listeners once, at its start; set it in the "
            "broker's file"
        )
    if changed.get(ADVERTISED):
        names = [listener.name for listener in parse_listeners("listeners", broker.settings.listeners)]
        try:
            parse_advertised(changed[ADVERTISED], names)
        except ConfigurationError as error:
            raise InvalidValue(str(error)) from error
    for key, text in changed.items():
        check_somebody_may_connect(key, parse_value(BROKER_SETTINGS[key], text))
    layers = broker.dynamic
    values = {
        **(overrides if not name else layers.of_all),
        **(overrides if name else layers.of_broker),
    }
    together = {
        key: text
        for key, text in values.items()
        if (setting := BROKER_SETTINGS.get(key)) is not None and setting.dynamic and setting.is_valid(text)
    }
    # What only the whole of them tells.
    check_thread_counts(layers.current, layers.static.with_changes(together))
