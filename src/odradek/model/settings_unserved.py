"""Settings that must not be ignored in silence: who sets one relies on it, and here nothing acts on it.

Other settings that are listed and not acted on cost speed or comfort at most. Without these a door is open that the
file says is shut, or the broker is another one than the file asks for.
"""

from collections.abc import Mapping

from odradek.model.errors import ConfigurationError
from odradek.model.settings import BROKER_SETTINGS, BrokerSettings, Setting, parse_value

# Nothing is encrypted, nobody says who he is, nothing is forbidden to anybody; no KRaft; no tiered storage.
PREFIXES = ("controller.quorum.", "delegation.token.", "sasl.", "ssl.")
NAMES = frozenset(
    (
        "alter.config.policy.class.name",
        "authorizer.class.name",
        "client.quota.callback.class",
        "connections.max.reauth.ms",
        "control.plane.listener.name",
        "controller.listener.names",
        "create.topic.policy.class.name",
        "early.start.listeners",
        "principal.builder.class",
        "process.roles",
        "remote.log.storage.system.enable",
        "security.providers",
        "zookeeper.metadata.migration.enable",
    )
)


def is_relied_on(setting: Setting) -> bool:
    """Not acted on, and dangerous to ignore."""
    return not setting.acted_on and (setting.name in NAMES or setting.name.startswith(PREFIXES))


def unserved(given: Mapping[str, str]) -> list[str]:
    """Names that are set to something else than what holds anyway, which is their default."""
    return sorted(
        name
        for name, text in given.items()
        if is_relied_on(BROKER_SETTINGS[name])
        and parse_value(BROKER_SETTINGS[name], text)
        != parse_value(BROKER_SETTINGS[name], BROKER_SETTINGS[name].default)
    )


def check_served(settings: BrokerSettings) -> str | None:
    """ConfigurationError, unless odradek.accept.unserved; then a sentence for the log, None where there is nothing to say."""
    names = unserved(settings.given)
    if not names:
        return None
    shown = f"{', '.join(names)}: set, and not acted on"
    if settings.odradek_accept_unserved:
        return f"{shown} (odradek.accept.unserved=true)"
    raise ConfigurationError(
        f"{shown}: this broker serves neither TLS, SASL, ACLs, policies nor KRaft, and every client that can connect may do "
        "everything. Take it out of the file, or set odradek.accept.unserved=true"
    )
