"""A start is refused where a setting is relied on that nothing here acts on."""

import pytest

from odradek.model.errors import ConfigurationError
from odradek.model.settings import BROKER_SETTINGS, BrokerSettings
from odradek.model.settings_unserved import NAMES, PREFIXES, check_served, is_relied_on

RELIED_ON = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "ssl.keystore.location": "/etc/kafka/broker.jks",
    "ssl.client.auth": "required",
    "process.roles": "broker,controller",
    "controller.quorum.voters": "1@a:9093",
    "create.topic.policy.class.name": "com.example.Policy",
    "principal.builder.class": "com.example.Builder",
    "control.plane.listener.name": "CONTROLLER",
    "delegation.token.secret.key": "secret",
    "remote.log.storage.system.enable": "true",
}
HARMLESS = {
    "authorizer.class.name": "",
    "process.roles": "",
    "sasl.enabled.mechanisms": "GSSAPI",
    "ssl.client.auth": "none",
    "ssl.enabled.protocols": "TLSv1.2, TLSv1.3",
    "remote.log.storage.system.enable": "false",
    "security.inter.broker.protocol": "PLAINTEXT",
    "sasl.server.max.receive.size": "1000",
    "inter.broker.protocol.version": "3.9",
    "num.io.threads": "4",
    "log.cleaner.threads": "2",
    "group.max.size": "10",
    "zookeeper.ssl.client.enable": "false",
    "odradek.zookeeper.sasl.jaas.config": "x",
}


@pytest.mark.parametrize(("name", "value"), RELIED_ON.items())
def test_what_is_relied_on_and_not_served_is_refused(name: str, value: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"set, and not acted on.*odradek\.accept\.unserved"
    ) as caught:
        check_served(BrokerSettings({name: value}))
    assert name in str(caught.value) and "secret" not in str(caught.value).replace(name, "")


def test_all_are_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_served(BrokerSettings(RELIED_ON))
    assert ", ".join(sorted(RELIED_ON)) in str(caught.value)


@pytest.mark.parametrize(("name", "value"), HARMLESS.items())
def test_a_default_and_what_costs_no_door_are_accepted(name: str, value: str) -> None:
    assert check_served(BrokerSettings({name: value})) is None


def test_with_the_word_of_the_operator_it_starts_and_says_so() -> None:
    said = check_served(BrokerSettings({**RELIED_ON, "odradek.accept.unserved": "true"}))
    assert said is not None and "authorizer.class.name" in said and "odradek.accept.unserved=true" in said


def test_every_name_and_prefix_is_one_of_the_table() -> None:
    relied_on = {name for name, setting in BROKER_SETTINGS.items() if is_relied_on(setting)}
    assert relied_on >= NAMES, "one that is acted on by now does not belong here"
    assert all(any(name.startswith(prefix) for name in relied_on) for prefix in PREFIXES)
