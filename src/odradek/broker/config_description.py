"""One setting as DescribeConfigs reports it: value, where it comes from, and what else could supply it.

A value comes from the first of: the topic's own override, this broker's dynamic value, the cluster-wide
dynamic default, the configuration file, the built-in default. The list of synonyms names every one of them
that is set, in that order (tests/golden/configs.json shows Apache's). Values are told as they were parsed, synonyms of a broker
as they were written.
"""

from collections.abc import Mapping
from decimal import Decimal
from itertools import dropwhile
from math import isinf
from typing import NamedTuple

from odradek.model.properties import AROUND_PARTS, AROUND_VALUES
from odradek.model.settings import (
    BROKER_SETTINGS,
    DECIMAL_NUMBER,
    INTEGER_BITS,
    ONLY_WHEN_SET,
    TOPIC_SETTINGS,
    WHOLE_NUMBER,
    BrokerSettings,
    Setting,
    broker_synonyms,
)

DYNAMIC_TOPIC = 1
DYNAMIC_BROKER = 2
DYNAMIC_DEFAULT_BROKER = 3
STATIC_BROKER = 4
DEFAULT = 5
DYNAMIC_BROKER_LOGGER = 6

TYPES = {
    "BOOLEAN": 1,
    "STRING": 2,
    "INT": 3,
    "SHORT": 4,
    "LONG": 5,
    "DOUBLE": 6,
    "LIST": 7,
    "CLASS": 8,
    "PASSWORD": 9,
}


PARSED = frozenset(("BOOLEAN", "LIST", "DOUBLE", *INTEGER_BITS))


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    setting: Setting
    value: str | None
    source: int
    is_read_only: bool
    synonyms: tuple[Synonym, ...]

    @property
    def is_sensitive(self) -> bool:
        return self.setting.is_sensitive


class BrokerLayers(NamedTuple):
    """What is said of broker settings, and by whom."""

    settings: BrokerSettings  # of the file alone
    dynamic: Mapping[str, str] = {}  # /config/brokers/<id>
    dynamic_default: Mapping[str, str] = {}  # /config/brokers/<default>


# Two names of one setting: whichever the file gives, it gives both.
_SAME = {"node.id": "broker.id", "broker.id": "node.id"}


def _broker_synonyms(name: str, layers: BrokerLayers) -> list[Synonym]:
    """Settings that stand in for `name` count from where `name` itself is set (Apache's dropWhile)."""
    given = layers.settings.given
    if name in _SAME and name not in given and _SAME[name] in given:
        given = {**given, name: given[_SAME[name]]}
    chain = broker_synonyms(name)
    found = [
        Synonym(member, values[member], source)
        for values, source in (
            (layers.dynamic, DYNAMIC_BROKER),
            (layers.dynamic_default, DYNAMIC_DEFAULT_BROKER),
            (given, STATIC_BROKER),
        )
        for member in chain
        if member in values
    ]
    for member in chain:
        setting = BROKER_SETTINGS.get(member)
        if setting is not None and setting.default is not None:
            found.append(Synonym(member, setting.default, DEFAULT))
    return list(dropwhile(lambda synonym: synonym.name != name, found))


def broker_entries(layers: BrokerLayers, names: Mapping[str, object] | None) -> list[ConfigEntry]:
    """All settings of a broker, or those asked for that exist."""
    entries = []
    for name, setting in BROKER_SETTINGS.items():
        if names is not None and name not in names:
            continue
        synonyms = _broker_synonyms(name, layers)
        if name in ONLY_WHEN_SET:
            synonyms = [synonym for synonym in synonyms if synonym.source != DEFAULT]
            if not synonyms:
                continue
        value, source = (synonyms[0].value, synonyms[0].source) if synonyms else (None, DEFAULT)
        value = _as_parsed(setting, value)
        # Those of replication can be changed, and Apache calls them read-only (tests/golden/admin_errors.json).
        is_read_only = not setting.dynamic or name in ONLY_WHEN_SET
        entries.append(_entry(setting, value, source, synonyms, is_read_only=is_read_only))
    return entries


def cluster_default_entries(
    dynamic_default: Mapping[str, str], names: Mapping[str, object] | None
) -> list[ConfigEntry]:
    """The resource "" (all brokers): only what was set dynamically for all, as it was written."""
    entries = []
    for name, text in sorted(dynamic_default.items()):
        setting = BROKER_SETTINGS.get(name)
        if setting is not None and (names is None or name in names):
            synonyms = [Synonym(name, text, DYNAMIC_DEFAULT_BROKER)]
            entries.append(
                _entry(setting, text, DYNAMIC_DEFAULT_BROKER, synonyms, is_read_only=not setting.dynamic)
            )
    return entries


def topic_entries(
    overrides: Mapping[str, str], layers: BrokerLayers, names: Mapping[str, object] | None
) -> list[ConfigEntry]:
    entries = []
    for name, setting in TOPIC_SETTINGS.items():
        if names is not None and name not in names:
            continue
        # Of several broker settings that stand in for each other only the first is a synonym, as in Apache.
        synonyms = _broker_synonyms(setting.broker_synonyms[0], layers) if setting.broker_synonyms else []
        if name in overrides:
            value, source = _as_parsed(setting, overrides[name]), DYNAMIC_TOPIC
            synonyms.insert(0, Synonym(name, value, DYNAMIC_TOPIC))
        elif synonyms:
            value, source = _as_parsed(setting, synonyms[0].value or ""), synonyms[0].source
        else:
            value, source = _folded(name, setting, layers.settings), DEFAULT
        entries.append(_entry(setting, value, source, synonyms, is_read_only=False))
    return entries


class TopicDescriptions:
    """Of many topics: most of it is the same for all, and telling it for each would hold up everybody else."""

    def __init__(self, layers: BrokerLayers) -> None:
        self._layers = layers
        self._defaults: dict[str, ConfigEntry] = {}

    def of(self, overrides: Mapping[str, str], names: Mapping[str, object] | None) -> list[ConfigEntry]:
        if not self._defaults:
            self._defaults = {entry.setting.name: entry for entry in topic_entries({}, self._layers, None)}
        own = {entry.setting.name: entry for entry in topic_entries(overrides, self._layers, overrides)}
        return [
            own.get(name, entry) for name, entry in self._defaults.items() if names is None or name in names
        ]


def _folded(name: str, setting: Setting, settings: BrokerSettings) -> str:
    """The value of a setting without a synonym of its own: retention.ms from log.retention.hours, ..."""
    default = settings.topic_defaults[setting.attribute]
    if isinstance(default, bool | tuple):
        return setting.default or ""
    return str(default)


def _entry(
    setting: Setting, value: str | None, source: int, synonyms: list[Synonym], *, is_read_only: bool
) -> ConfigEntry:
    if setting.is_sensitive:
        # Never told, whoever asks; which source it comes from is.
        value = None
        synonyms = [synonym._replace(value=None) for synonym in synonyms]
    return ConfigEntry(setting, value, source, is_read_only, tuple(synonyms))


def _as_parsed(setting: Setting, text: str | None) -> str | None:
    """As Apache tells what it has parsed, whatever was written: ` 5` is 5, `TRUE` true, `1` of a ratio 1.0, `a ,b` a,b.

    What stands in the store and cannot be parsed is told as it is.
    """
    kind = setting.type
    if text is None or kind not in PARSED:
        return text
    stripped = text.strip(AROUND_VALUES)
    if kind == "BOOLEAN":
        return stripped.lower()
    if kind == "LIST":
        return ",".join(part.strip(AROUND_PARTS) for part in stripped.split(","))
    if kind == "DOUBLE":
        return _as_java_tells(float(stripped)) if DECIMAL_NUMBER.fullmatch(stripped) else text
    return str(int(stripped)) if WHOLE_NUMBER.fullmatch(stripped) else text


def _as_java_tells(value: float) -> str:
    """Double.toString."""
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
