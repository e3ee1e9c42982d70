"""Every setting, once: its name, type, default, words, scope; and the values of one broker or topic.

Apache's property names are the public surface, so a `server.properties` made for Apache Kafka 3.9 starts here
unchanged; ours begin with `odradek.`. Code reads them as attributes, in snake case and typed:

    settings = BrokerSettings.from_properties({"broker.id": "1", "min.insync.replicas": "2"})
    settings.min_insync_replicas                                  # 2
    TopicSettings(settings, {"retention.ms": "-1"}).retention_ms  # -1

Values are computed once, when the object is made, and never change: a dynamic change makes a new object.
"""

import ipaddress
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

from odradek.model import settings_acted_on, settings_listed
from odradek.model.errors import ConfigurationError, InvalidValue
from odradek.model.ids import number_in
from odradek.model.properties import AROUND_PARTS, AROUND_VALUES
from odradek.model.properties import parse_properties as parse_properties

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
LONG_MAX = 2**63 - 1
INTEGER_BITS = {"SHORT": 16, "INT": 32, "LONG": 64}
# What stands for a long text in the tables.
VALID_WORDS = {
    "$versions": "[0.8.0, 0.8.1, 0.8.2, 0.9.0, 0.10.0-IV0, 0.10.0-IV1, 0.10.1-IV0, 0.10.1-IV1, 0.10.1-IV2, "
    "0.10.2-IV0, 0.11.0-IV0, 0.11.0-IV1, 0.11.0-IV2, 1.0-IV0, 1.1-IV0, 2.0-IV0, 2.0-IV1, 2.1-IV0, 2.1-IV1, "
    "2.1-IV2, 2.2-IV0, 2.2-IV1, 2.3-IV0, 2.3-IV1, 2.4-IV0, 2.4-IV1, 2.5-IV0, 2.6-IV0, 2.7-IV0, 2.7-IV1, "
    "2.7-IV2, 2.8-IV0, 2.8-IV1, 3.0-IV0, 3.0-IV1, 3.1-IV0, 3.2-IV0, 3.3-IV0, 3.3-IV1, 3.3-IV2, 3.3-IV3, "
    "3.4-IV0, 3.5-IV0, 3.5-IV1, 3.5-IV2, 3.6-IV0, 3.6-IV1, 3.6-IV2, 3.7-IV0, 3.7-IV1, 3.7-IV2, 3.7-IV3, "
    "3.7-IV4, 3.8-IV0, 3.9-IV0, 4.0-IV0, 4.0-IV1]",
    "$remote-threads": "-1, or [1,...]",
    "$throttled": "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
}
GZIP_LEVELS = "[1,...,9] or -1"


class Setting(NamedTuple):
    name: str
    type: str  # BOOLEAN | SHORT | INT | LONG | DOUBLE | STRING | LIST | CLASS | PASSWORD
    default: str | None  # as text, the way DescribeConfigs reports it
    importance: str  # HIGH | MEDIUM | LOW
    dynamic: bool  # may be changed while the broker runs
    broker_synonyms: tuple[str, ...]  # of a topic setting: the broker settings that supply its value
    valid: str | None  # in the notation of DescribeConfigs: [1,...], [0,...,1], [compact, delete]
    doc: str
    acted_on: bool  # False: accepted and reported, nothing here reads it

    @property
    def attribute(self) -> str:
        return attribute_name(self.name)

    @property
    def is_sensitive(self) -> bool:
        return self.type == "PASSWORD"

    def is_valid(self, text: str) -> bool:
        try:
            parse_value(self, text)
        except ConfigurationError:
            return False
        return True


class Secret(str):
    """A password: its value is the text, and no log line or trace shows it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'[hidden]'"


@cache
def attribute_name(name: str) -> str:
    """`replica.lag.time.max.ms` -> `replica_lag_time_max_ms`."""
    if not name.islower():
        name = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
    return name.replace(".", "_")


def _rows(text: str, *, topic: bool, acted_on: bool) -> dict[str, Setting]:
    """The entries of one table: a line of facts, then indented lines of words."""
    rows: dict[str, Setting] = {}
    facts: list[str] = []
    words: list[str] = []

    def end_of_entry() -> None:
        if not facts:
            return
        name, kind, default, importance, flag = facts[:5]
        valid = facts[5] if len(facts) > 5 else None
        rows[name] = Setting(
            name,
            kind,
            None if default == "null" else "" if default == '""' else default,
            importance,
            topic or flag == "dynamic",
            () if not topic or flag == "null" else tuple(flag.split(",")),
            VALID_WORDS.get(valid, valid) if valid else None,
            " ".join(words),
            acted_on,
        )

    for line in text.splitlines():
        if line.startswith("    "):
            words.append(line.strip())
        elif line:
            end_of_entry()
            facts, words = line.split(None, 5), []
    end_of_entry()
    return rows


_DYNAMIC_ONLY = _rows(settings_acted_on.DYNAMIC_ONLY, topic=False, acted_on=True)
# name -> setting, sorted by name as DescribeConfigs lists them.
BROKER_SETTINGS: dict[str, Setting] = dict(
    sorted(
        (
            _rows(settings_acted_on.BROKER, topic=False, acted_on=True)
            | _rows(settings_acted_on.OURS, topic=False, acted_on=True)
            | _rows(settings_listed.BROKER, topic=False, acted_on=False)
            | _DYNAMIC_ONLY
        ).items()
    )
)
# Reported only where somebody set them.
ONLY_WHEN_SET = frozenset(_DYNAMIC_ONLY)
# Apache opens and closes listeners while it runs; a broker of ours opens them once.
OPENED_ONCE = frozenset(("listeners", "listener.security.protocol.map"))
# Of one broker each: refused as a default of the whole cluster (Apache's DynamicBrokerConfig.PerBrokerConfigs).
PER_BROKER = frozenset(
    name
    for name, setting in BROKER_SETTINGS.items()
    if setting.dynamic
    and (
        name in ("advertised.listeners", "listeners", "listener.security.protocol.map")
        or name == "principal.builder.class"
        or name.startswith(("ssl.", "sasl."))
    )
)
TOPIC_SETTINGS: dict[str, Setting] = dict(
    sorted(
        (
            _rows(settings_acted_on.TOPIC, topic=True, acted_on=True)
            | _rows(settings_listed.TOPIC, topic=True, acted_on=False)
        ).items()
    )
)


class Row(NamedTuple):
    """One setting with its scope: `broker`, `topic`, or `both` where topic and broker share the name."""

    scope: str
    setting: Setting


TABLE: tuple[Row, ...] = tuple(
    Row("both" if name in TOPIC_SETTINGS else "broker", setting) for name, setting in BROKER_SETTINGS.items()
) + tuple(Row("topic", setting) for name, setting in TOPIC_SETTINGS.items() if name not in BROKER_SETTINGS)

# Broker settings of which the first that is set counts, with what one unit of each is worth in ms.
Chain = tuple[tuple[str, int], ...]
FALLBACKS: dict[str, Chain] = {
    "log.retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", MINUTE_MS),
        ("log.retention.hours", HOUR_MS),
    ),
    "log.roll.ms": (("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)),
    "log.roll.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)),
    "log.flush.interval.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
}


_CHAINS = {member: tuple(name for name, _ in chain) for chain in FALLBACKS.values() for member, _ in chain}


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The broker settings that stand in for each other, `name` among them, in order of precedence."""
    return _CHAINS.get(name) or (name,)


def nearest(name: str, names: Mapping[str, object]) -> str | None:
    """The known name that `name` was probably meant to be."""
    import difflib  # only a mistake pays for it

    found = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return found[0] if found else None


def unknown_setting(name: str, names: Mapping[str, Setting], kind: str) -> ConfigurationError:
    guess = nearest(name, names)
    if guess is None:
        return ConfigurationError(
            f"{name}: no such {kind} setting; docs/reference/settings.md lists all of them"
        )
    return ConfigurationError(f"{name}: no such {kind} setting; did you mean {guess}?")


# What Java reads as numbers too: an Apache broker that finds another form in a node cannot take over any of its settings.
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
DECIMAL_NUMBER = re.compile(r"[+-]?([0-9]{1,300}\.?[0-9]{0,300}|\.[0-9]{1,300})([eE][+-]?[0-9]{1,3})?")


# A longer text is hardly ever that of a second topic.
LONGEST_KEPT = 100


def parse_value(setting: Setting, text: str | None) -> Any:
    """`text` as the setting's type, checked against what is valid; ConfigurationError says what would do."""
    if text is None:
        return None
    text = text.strip(AROUND_VALUES)
    if setting.type == "PASSWORD":
        return Secret(text)
    return _parsed_before(setting, text) if len(text) <= LONGEST_KEPT else _parsed(setting, text)


@lru_cache(maxsize=1_000)
def _parsed_before(setting: Setting, text: str) -> Any:
    """A thousand topics have the same overrides."""
    return _parsed(setting, text)


def _parsed(setting: Setting, text: str) -> Any:
    kind = setting.type
    value: Any = text
    if kind == "BOOLEAN":
        if text.lower() not in ("true", "false"):
            raise _refused(
                setting, text, "must be true or false", "Expected value to be either true or false"
            )
        value = text.lower() == "true"
    elif kind in INTEGER_BITS:
        if not WHOLE_NUMBER.fullmatch(text):
            raise _refused(setting, text, "must be a whole number", f"Not a number of type {kind}")
        value = int(text)
        limit = 1 << (INTEGER_BITS[kind] - 1)
        if not -limit <= value < limit:
            limits = f"must lie between {-limit} and {limit - 1}"
            raise _refused(setting, text, limits, f"Not a number of type {kind}")
    elif kind == "DOUBLE":
        if not DECIMAL_NUMBER.fullmatch(text):
            raise _refused(setting, text, "must be a number", "Not a number of type DOUBLE")
        value = float(text)
    elif kind == "LIST":
        parts = tuple(part.strip(AROUND_PARTS) for part in text.split(",")) if text else ()
        # Where words are checked, one that is empty is checked too; elsewhere it is a comma too many.
        value = parts if setting.valid is not None else tuple(filter(None, parts))
    if setting.valid is not None and text != setting.default:
        problem = _why_not_valid(setting, value)
        if problem:
            raise _refused(
                setting, text, problem, _kafka_problem(setting, value), _kafka_value(setting, value)
            )
    return value


def _refused(
    setting: Setting, text: str, problem: str, kafka_problem: str, kafka_value: str | None = None
) -> InvalidValue:
    default = "unset" if setting.default is None else setting.default or "empty"
    return InvalidValue(
        f"{setting.name}={text}: {problem} (default: {default})",
        f"Invalid value {text if kafka_value is None else kafka_value} for configuration {setting.name}: "
        f"{kafka_problem}",
    )


def _kafka_value(setting: Setting, value: Any) -> str | None:
    """A validator of Apache's prints what was parsed: 2.0 for 2, lists that are judged as a whole, else the first bad part."""
    if setting.type == "DOUBLE":
        return repr(value)
    if setting.valid == VALID_WORDS["$throttled"]:
        return f"[{', '.join(value)}]"
    if isinstance(value, tuple) and setting.valid is not None:
        return next((part for part in value if part not in _parts(setting.valid)), None)
    return None


def _kafka_problem(setting: Setting, value: Any) -> str:
    """What Apache's validators say of a value that is not valid (ConfigDef.Range, ValidString, ValidList)."""
    valid = setting.valid
    assert valid is not None
    if valid == VALID_WORDS["$throttled"]:
        return (
            f"{setting.name} must be the literal '*' or a list of replicas in the following format: {valid}"
        )
    if valid == GZIP_LEVELS:
        return "Value must be between 1 and 9 or equal to -1"
    if valid == VALID_WORDS["$versions"]:
        return f"Version {value} is not a valid version"
    parts = _parts(valid)
    if "..." in parts:
        is_low = isinstance(value, int | float) and value < float(parts[0])
        return f"Value must be at least {parts[0]}" if is_low else f"Value must be no more than {parts[-1]}"
    if valid.startswith("["):
        return f"String must be one of: {', '.join(parts)}"
    return f"must be {valid}"


def _why_not_valid(setting: Setting, value: Any) -> str | None:
    """The notation of DescribeConfigs, read back: a range, a list of words, or a phrase."""
    valid = setting.valid
    assert valid is not None
    if valid == "non-null string":
        return None
    if valid in ("non-empty string", "non-empty list"):
        return None if value else "must not be empty"
    if valid == VALID_WORDS["$remote-threads"]:
        return None if value == -1 or value >= 1 else "must be -1, or 1 or more"
    if valid == VALID_WORDS["$throttled"]:
        is_valid = value == ("*",) or all(_is_throttled(part) for part in value)
        return None if is_valid else "must be *, or pairs such as 0:1,0:2"
    if valid == GZIP_LEVELS:
        return None if value == -1 or 1 <= value <= 9 else "must be -1, or 1 to 9"
    parts = _parts(valid)
    if "..." in parts:
        low, high = _limits(valid)
        if value < low or (high is not None and value > high):
            return f"must be {parts[0]} or more" if high is None else f"must be {parts[0]} to {parts[2]}"
        return None
    if valid == VALID_WORDS["$versions"]:
        # 3.9 means 3.9-IV0, as in Apache.
        return (
            None if any(p == value or p.startswith(f"{value}-") for p in parts) else "must be a Kafka version"
        )
    for part in value if isinstance(value, tuple) else (value,):
        if part not in parts:
            return f"must be {'made of ' if isinstance(value, tuple) else ''}{', '.join(parts)}"
    return None


@cache
def _parts(valid: str) -> tuple[str, ...]:
    """`[0,...,9]` or a list of words, taken apart; asked of each value that is set."""
    return tuple(part.strip() for part in valid.strip("[]").split(","))


@cache
def _limits(valid: str) -> tuple[float, float | None]:
    parts = _parts(valid)
    return float(parts[0]), float(parts[2]) if len(parts) > 2 else None


def _is_throttled(part: str) -> bool:
    partition, _, broker = part.partition(":")
    return number_in(partition) is not None and number_in(broker) is not None


_BROKER_DEFAULTS = {s.attribute: parse_value(s, s.default) for s in BROKER_SETTINGS.values()}
_TOPIC_DEFAULTS = {s.attribute: parse_value(s, s.default) for s in TOPIC_SETTINGS.values()}
_BROKER_ATTRIBUTES = {s.attribute: s for s in BROKER_SETTINGS.values()}
_TOPIC_ATTRIBUTES = {s.attribute: s for s in TOPIC_SETTINGS.values()}


class _Values:
    """Attributes in the instance dictionary: a read costs what any attribute costs. None can be assigned."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"settings do not change: {name}; make new ones with with_changes()")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"settings do not change: {name}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return id(self)


class BrokerSettings(_Values):
    """The settings of one broker. `given` holds what the configuration file said, as text."""

    given: Mapping[str, str]
    topic_defaults: Mapping[str, Any]  # attribute -> value of a topic without overrides

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        given = dict(given or {})
        values = dict(_BROKER_DEFAULTS)
        for name, text in given.items():
            setting = BROKER_SETTINGS.get(name)
            if setting is None:
                raise unknown_setting(name, BROKER_SETTINGS, "broker")
            values[setting.attribute] = parse_value(setting, text)
        _settle_broker_id(given, values)
        for name, chain in FALLBACKS.items():
            values[attribute_name(name)] = _first_set(chain, given, values)
        values["given"] = given
        values["topic_defaults"] = _topic_defaults(values)
        self.__dict__.update(values)
        _check_together(self)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "BrokerSettings":
        return cls(properties)

    def with_changes(self, changes: Mapping[str, str | None]) -> "BrokerSettings":
        """The same with other values; None takes a setting back to its default."""
        given = dict(self.given)
        for name, text in changes.items():
            if text is None:
                given.pop(name, None)
            else:
                given[name] = text
        return BrokerSettings(given)

    # Of max.connection.creation.rate: as fast as they come.
    UNLIMITED_RATE = 2**31 - 1

    @property
    def connections_per_ip_overrides(self) -> dict[str, int]:
        return _addresses(self.max_connections_per_ip_overrides)

    @property
    def log_directories(self) -> tuple[str, ...]:
        text = self.log_dir if self.log_dirs is None else self.log_dirs
        return tuple(part.strip() for part in text.split(",") if part.strip())

    @property
    def store_file(self) -> str | None:
        """The embedded store's file; None when a ZooKeeper ensemble keeps the metadata."""
        if self.odradek_store:
            return str(self.odradek_store)
        return None if self.zookeeper_connect else f"{self.log_directories[0]}/odradek-store.sqlite"

    @property
    def offers_consumer_groups(self) -> bool:
        """Groups of KIP-848. Apache 3.9 passes their records over, so no broker of its kind may lead their topic: in a
        cluster with ZooKeeper that is for the operator to know."""
        if "group.coordinator.rebalance.protocols" in self.given:
            return "consumer" in self.group_coordinator_rebalance_protocols
        return not self.zookeeper_connect

    @property
    def consumer_assignors(self) -> tuple[str, ...]:
        """By their short names."""
        return tuple(CONSUMER_ASSIGNORS.get(name, name) for name in self.group_consumer_assignors)

    @property
    def selects_replicas_by_rack(self) -> bool:
        """A leader sends consumers to replicas in their racks (KIP-392)."""
        return bool(self.replica_selector_class == RACK_AWARE_SELECTOR)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        guess = nearest(name, _BROKER_ATTRIBUTES)
        raise AttributeError(f"no broker setting {name}" + (f"; did you mean {guess}?" if guess else ""))

    def __repr__(self) -> str:
        shown = {n: "[hidden]" if BROKER_SETTINGS[n].is_sensitive else t for n, t in self.given.items()}
        return f"BrokerSettings({shown})"


class TopicSettings(_Values):
    """The settings of one topic: its overrides over the values of the broker."""

    broker: BrokerSettings
    overrides: Mapping[str, str]

    def __init__(self, broker: BrokerSettings, overrides: Mapping[str, str] | None = None) -> None:
        values = dict(broker.topic_defaults)
        overrides = dict(overrides or {})
        for name, text in overrides.items():
            setting = TOPIC_SETTINGS.get(name)
            if setting is None:
                raise unknown_setting(name, TOPIC_SETTINGS, "topic")
            values[setting.attribute] = parse_value(setting, text)
        difference = values["message_timestamp_difference_max_ms"]
        for direction in ("message_timestamp_before_max_ms", "message_timestamp_after_max_ms"):
            # The newer two count when they are set; else the one they replaced (KIP-937).
            if values[direction] == LONG_MAX:
                values[direction] = difference
        values["broker"] = broker
        values["overrides"] = overrides
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        guess = nearest(name, _TOPIC_ATTRIBUTES)
        raise AttributeError(f"no topic setting {name}" + (f"; did you mean {guess}?" if guess else ""))

    def __repr__(self) -> str:
        return f"TopicSettings({dict(self.overrides)})"


def _settle_broker_id(given: Mapping[str, str], values: dict[str, Any]) -> None:
    """broker.id and node.id are two names of one number."""
    if "broker.id" in given and "node.id" in given and values["broker_id"] != values["node_id"]:
        raise ConfigurationError(
            f"broker.id={values['broker_id']} and node.id={values['node_id']} name two brokers; set only one"
        )
    number = values["broker_id"] if "broker.id" in given else values["node_id"]
    values["broker_id"] = values["node_id"] = number


def _addresses(text: str) -> dict[str, int]:
    """`10.0.0.1:5,::1:7`: an address and how many connections it may have. The address as a connection has it."""
    overrides = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        address, _, count = part.rpartition(":")
        number = number_in(count)
        if not address or number is None:
            raise ConfigurationError(
                f"max.connections.per.ip.overrides={text}: {part} must be an address and a count, as 10.0.0.1:5"
            )
        try:
            overrides[str(ipaddress.ip_address(address.removeprefix("[").removesuffix("]")))] = number
        except ValueError:
            raise ConfigurationError(
                f"max.connections.per.ip.overrides={text}: {part} must be an address and a count, as 10.0.0.1:5; names are not "
                "looked up"
            ) from None
    return overrides


def _first_set(
    chain: tuple[tuple[str, int], ...], given: Mapping[str, str], values: Mapping[str, Any]
) -> int:
    """The first of the chain that was given; else the last one's default. A negative value has no unit."""
    for name, unit_ms in chain:
        value = values[attribute_name(name)]
        if value is not None and (name in given or name == chain[-1][0]):
            number = int(value)
            return number if number < 0 else number * unit_ms  # 64 bits hold 2**31 hours
    raise AssertionError(f"the last of {chain} has a default")


def _topic_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    defaults = dict(_TOPIC_DEFAULTS)
    for setting in TOPIC_SETTINGS.values():
        if setting.broker_synonyms:
            # Chains were folded into their first member above.
            defaults[setting.attribute] = values[attribute_name(setting.broker_synonyms[0])]
    return defaults


def _check_together(settings: BrokerSettings) -> None:
    """What each value alone does not show."""
    if settings.replica_fetch_wait_max_ms > settings.replica_lag_time_max_ms:
        raise ConfigurationError(
            f"replica.fetch.wait.max.ms={settings.replica_fetch_wait_max_ms} is longer than "
            f"replica.lag.time.max.ms={settings.replica_lag_time_max_ms}: quiet partitions would leave "
            "the ISR; make it shorter"
        )
    if settings.replica_socket_timeout_ms < settings.replica_fetch_wait_max_ms:
        raise ConfigurationError(
            f"replica.socket.timeout.ms={settings.replica_socket_timeout_ms} is shorter than "
            f"replica.fetch.wait.max.ms={settings.replica_fetch_wait_max_ms}: leaders would be given up while they wait "
            "for records; make it longer"
        )
    if settings.replica_fetch_max_bytes > settings.replica_fetch_response_max_bytes and (
        "replica.fetch.response.max.bytes" in settings.given
    ):
        raise ConfigurationError(
            f"replica.fetch.response.max.bytes={settings.replica_fetch_response_max_bytes} is less than "
            f"replica.fetch.max.bytes={settings.replica_fetch_max_bytes}; one partition's share must fit"
        )
    if settings.max_connections_per_ip == 0 and not _addresses(settings.max_connections_per_ip_overrides):
        raise InvalidValue(
            "max.connections.per.ip=0 refuses every address; list those that may connect in max.connections.per.ip.overrides",
            "requirement failed: max.connections.per.ip can be set to zero only if "
            "max.connections.per.ip.overrides property is set.",
        )
    _addresses(settings.max_connections_per_ip_overrides)
    _check_times(settings)
    _check_consumer_groups(settings)
    if settings.replica_selector_class not in (None, *REPLICA_SELECTORS):
        raise ConfigurationError(
            f"replica.selector.class={settings.replica_selector_class}: no class can be loaded here; known are "
            f"{' and '.join(REPLICA_SELECTORS)}, and unset, which means the former"
        )
    if not settings.log_directories:
        raise ConfigurationError("log.dirs is empty; name at least one directory")
    if settings.inter_broker_listener_name is not None and "security.inter.broker.protocol" in settings.given:
        raise ConfigurationError("set inter.broker.listener.name or security.inter.broker.protocol, not both")


# What topics get from a chain, of which Apache's broker settings have no range: the least that is valid, and Apache's words
# (KafkaConfig.validateValues; of the last one LogConfig's).
LEAST_TIMES = {
    "log.retention.ms": (1, "requirement failed: log.retention.ms must be unlimited (-1) or, equal or greater than 1"),
    "log.roll.ms": (1, "requirement failed: log.roll.ms must be equal or greater than 1"),
    "log.roll.jitter.ms": (0, "requirement failed: log.roll.jitter.ms must be equal or greater than 0"),
    "log.flush.interval.ms": (0, "Invalid value for configuration flush.ms: Value must be at least 0"),
}  # fmt: skip


def _check_times(settings: BrokerSettings) -> None:
    """A retention of nothing would delete every record, and a roll after nothing make a file of each."""
    for head, (least, kafka_words) in LEAST_TIMES.items():
        value = getattr(settings, attribute_name(head))
        is_for_ever = head == "log.retention.ms" and value < 0
        if value < least and not is_for_ever:
            name = next(name for name in broker_synonyms(head) if name in settings.given)
            more = ", or -1, which keeps all" if head == "log.retention.ms" else ""
            raise InvalidValue(f"{name}={settings.given[name]}: must be {least} or more{more}", kafka_words)


# KIP-392 names both. Apache 3.9's jars have the second alone.
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
REPLICA_SELECTORS = ("org.apache.kafka.common.replica.LeaderSelector", RACK_AWARE_SELECTOR)

# Java's name of an assignor of consumer groups -> ours.
_JAVA_ASSIGNORS = "org.apache.kafka.coordinator.group.assignor"
CONSUMER_ASSIGNORS = {
    f"{_JAVA_ASSIGNORS}.UniformAssignor": "uniform",
    f"{_JAVA_ASSIGNORS}.RangeAssignor": "range",
}


def _check_consumer_groups(settings: BrokerSettings) -> None:
    unknown = [name for name in settings.consumer_assignors if name not in CONSUMER_ASSIGNORS.values()]
    if unknown or not settings.consumer_assignors:
        raise ConfigurationError(
            f"group.consumer.assignors={settings.group_consumer_assignors}: known are uniform and range"
        )
    bounds = {
        "session.timeout": (
            settings.group_consumer_min_session_timeout_ms,
            settings.group_consumer_session_timeout_ms,
            settings.group_consumer_max_session_timeout_ms,
        ),
        "heartbeat.interval": (
            settings.group_consumer_min_heartbeat_interval_ms,
            settings.group_consumer_heartbeat_interval_ms,
            settings.group_consumer_max_heartbeat_interval_ms,
        ),
    }
    for name, (least, value, most) in bounds.items():
        if not least <= value <= most:
            raise ConfigurationError(
                f"group.consumer.{name}.ms={value} is not between group.consumer.min.{name}.ms={least} and "
                f"group.consumer.max.{name}.ms={most}"
            )
    if settings.group_consumer_heartbeat_interval_ms >= settings.group_consumer_session_timeout_ms:
        raise ConfigurationError(
            "group.consumer.heartbeat.interval.ms must be shorter than group.consumer.session.timeout.ms"
        )
