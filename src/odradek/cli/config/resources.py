"""The settings of a topic, a broker or the whole cluster, on the wire: DescribeConfigs and IncrementalAlterConfigs."""

import shlex
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
SOURCE_OF_TOPIC, SOURCE_OF_BROKER, SOURCE_OF_ALL = 1, 2, 3
SOURCES = {
    SOURCE_OF_TOPIC: "topic",
    SOURCE_OF_BROKER: "broker",
    SOURCE_OF_ALL: "cluster default",
    4: "server.properties",
    5: "default",
    6: "broker logger",
}


class Resource(NamedTuple):
    """`name` of the cluster's default is empty, as on the wire."""

    kind: int
    name: str

    def __str__(self) -> str:
        if self.kind == TOPIC:
            return f"topic {self.name}"
        return f"broker {self.name}" if self.name else "all brokers"

    def option(self) -> str:
        """As it is typed in a shell."""
        if self.kind == TOPIC:
            return f"--topic {shlex.quote(self.name)}"
        return f"--broker {self.name}" if self.name else "--cluster"


class Entry(NamedTuple):
    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[tuple[str, str | None, int], ...]
    documentation: str | None


def resource_options(command: Any) -> Any:
    """--topic, --broker, --cluster: of which one must be given."""
    for option in (
        click.option("--cluster", is_flag=True, help="The default of all brokers, while they run."),
        click.option(
            "--broker", type=click.IntRange(min=0), metavar="ID", help="The settings of this broker."
        ),
        click.option("--topic", "-t", metavar="NAME", help="The settings of this topic."),
    ):
        command = option(command)
    return command


def resource_named(topic: str | None, broker: int | None, cluster: bool) -> Resource:
    if (topic is not None) + (broker is not None) + cluster != 1:
        raise whose()
    if topic is not None:
        return Resource(TOPIC, topic)
    return Resource(BROKER, "" if broker is None else str(broker))


def whose(name: str = "") -> click.UsageError:
    """`name` was given without an option that says what it names."""
    before = f"{name}: " if name else ""
    return click.UsageError(f"{before}whose settings? Say one of --topic NAME, --broker ID, --cluster")


def check_name(resource: Resource, name: str) -> None:
    """A setting nobody knows gets the nearest one; brokers of Apache's know a few more, so this is for typing errors."""
    from odradek.model.settings import BROKER_SETTINGS, TOPIC_SETTINGS, nearest, unknown_setting

    table = TOPIC_SETTINGS if resource.kind == TOPIC else BROKER_SETTINGS
    if name not in table and nearest(name, table):
        raise click.UsageError(
            str(unknown_setting(name, table, "topic" if resource.kind == TOPIC else "broker"))
        )


def describe(
    client: "SyncClient", resource: Resource, names: list[str] | None = None, *, documented: bool = False
) -> list[Entry]:
    """By name. A broker is asked itself; anybody knows of topics and of the cluster's default."""
    from odradek.cli.lookup import no_such_topic
    from odradek.model.error_codes import ErrorCode
    from odradek.model.errors import ProtocolError

    try:
        return described(client, resource, names, documented=documented)
    except ProtocolError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or resource.kind != TOPIC:
            raise
    no_such_topic(client, resource.name)


def described(
    client: "SyncClient", resource: Resource, names: list[str] | None = None, *, documented: bool = False
) -> list[Entry]:
    """The same, with ProtocolError for a topic that is not there."""
    from odradek.client.sync import ANY, answered
    from odradek.model.error_codes import ErrorCode
    from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    wanted = DescribeConfigsResource(
        resource_type=resource.kind, resource_name=resource.name, configuration_keys=names
    )
    request = DescribeConfigsRequest(
        resources=[wanted], include_synonyms=True, include_documentation=documented
    )
    asked = int(resource.name) if resource.kind == BROKER and resource.name else ANY
    (result,) = client.call(asked, request).results
    if result.error_code != ErrorCode.NONE:
        raise answered(result.error_code, str(resource), result.error_message)
    return sorted(
        Entry(
            e.name,
            e.value,
            e.config_source,
            e.read_only,
            e.is_sensitive,
            tuple((s.name, s.value, s.source) for s in e.synonyms),
            e.documentation,
        )
        for e in result.configs
    )


def not_set(client: "SyncClient", resource: Resource, changes: Mapping[str, str | None]) -> list[str]:
    """Of what is to be deleted, what has no value at this level: brokers delete that without a word."""
    names = [name for name, value in changes.items() if value is None]
    if not names:
        return []
    level = (
        SOURCE_OF_TOPIC if resource.kind == TOPIC else SOURCE_OF_BROKER if resource.name else SOURCE_OF_ALL
    )
    found = {entry.name for entry in describe(client, resource, names) if entry.source == level}
    return [name for name in names if name not in found]


def words_of(changes: Mapping[str, str | None], absent: Collection[str]) -> str:
    """What became of each; `absent` as `not_set` found it."""
    return ", ".join(
        f"{name}={value}" if value is not None else f"{name} {'was not set' if name in absent else 'deleted'}"
        for name, value in changes.items()
    )


def alter_configs(
    client: "SyncClient",
    changes: Mapping[tuple[int, str], Mapping[str, str | None]],
    *,
    validate_only: bool = False,
) -> dict[tuple[int, str], str]:
    """IncrementalAlterConfigs: None deletes, everything not named stays. What was refused, in the broker's words."""
    from odradek.client.sync import ANY, code_of
    from odradek.model.error_codes import ErrorCode
    from odradek.protocol.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    by_broker: dict[int, list[AlterConfigsResource]] = {}
    for (kind, name), values in changes.items():
        resource = AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
                for key, value in values.items()
            ],
        )
        asked = int(name) if kind == BROKER and name else ANY
        by_broker.setdefault(asked, []).append(resource)
    refused = {}
    for broker, resources in by_broker.items():
        request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
        for answer in client.call(broker, request).responses:
            if answer.error_code != ErrorCode.NONE:
                why = answer.error_message or code_of(answer.error_code).name
                refused[answer.resource_type, answer.resource_name] = why.rstrip(".")
    return refused
