"""The resource BROKER_LOGGER: levels of this process's loggers, told and changed (KIP-412)."""

from pathlib import Path
from time import process_time
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker import row_limits
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages import alter_configs as am
from odradek.protocol.messages import describe_configs as dm
from odradek.protocol.messages import incremental_alter_configs as im
from tests.broker.configs import APPEND, BROKER_LOGGER, DELETE, SET
from tests.broker.world import Pending, World, told


class Shell:
    """Plays the process around broker 1."""

    def __init__(self, path: Path) -> None:
        self.world = World(path, brokers=(1,))
        self.levels = {"root": "INFO", "odradek.server": "INFO", "odradek.state_change": "WARN"}
        self.set: list[dict[str, str | None]] = []

    def serve(self, pending: Pending) -> Any:
        while asked := told(self.world, fx.LoggersAsked):
            for effect in asked:
                if effect.levels:
                    self.set.append(dict(effect.levels))
                    self.levels |= {n: v or "INFO" for n, v in effect.levels.items()}
                self.world[1].broker.answered(effect.request_id, self.levels, self.world.now_ms)
        return pending.message

    def change(self, name: str, operation: int, value: str | None, **options: Any) -> tuple[int, str | None]:
        row = im.AlterableConfig(name=name, config_operation=operation, value=value)
        resource = options.pop("resource", "1")
        request = im.IncrementalAlterConfigsRequest(
            resources=[
                im.AlterConfigsResource(resource_type=BROKER_LOGGER, resource_name=resource, configs=[row])
            ],
            **options,
        )
        (answer,) = self.serve(self.world.send(1, request, 1)).responses
        return answer.error_code, answer.error_message

    def describe(self, name: str = "1", keys: list[str] | None = None) -> Any:
        request = dm.DescribeConfigsRequest(
            resources=[
                dm.DescribeConfigsResource(
                    resource_type=BROKER_LOGGER, resource_name=name, configuration_keys=keys
                )
            ]
        )
        (result,) = self.serve(self.world.send(1, request, 4)).results
        return result


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_every_logger_is_told_with_its_level(shell: Shell) -> None:
    rows = shell.describe().configs
    assert {row.name: row.value for row in rows} == shell.levels
    assert {(row.config_source, row.read_only, row.is_sensitive) for row in rows} == {(6, False, False)}
    assert [row.name for row in shell.describe(keys=["root", "none"]).configs] == ["root"]
    assert shell.describe(name="").error_code == ErrorCode.INVALID_REQUEST
    assert shell.describe(name="2").error_code == ErrorCode.INVALID_REQUEST


def test_loggers_are_not_looked_for_in_a_long_list_of_names(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_limits, "LEAST_ROWS", 100_000)
    shell.levels |= {f"logger.{number}": "INFO" for number in range(3_000)}
    names = [f"none.{number}" for number in range(50_000)]
    began = process_time()
    assert [row.name for row in shell.describe(keys=[*names, "root"]).configs] == ["root"]
    assert process_time() - began < 0.6, "each with each takes a second more"


def test_a_level_is_set_and_given_back(shell: Shell) -> None:
    assert shell.change("odradek.server", SET, "DEBUG") == (0, None)
    assert shell.change("odradek.server", DELETE, None) == (0, None)
    assert shell.set == [{"odradek.server": "DEBUG"}, {"odradek.server": None}]
    assert shell.change("odradek.server", SET, "TRACE", validate_only=True) == (0, None)
    assert len(shell.set) == 2


@pytest.mark.parametrize(
    ("name", "operation", "value", "error", "sentence"),
    [
        ("kafka.server", SET, "INFO", ErrorCode.INVALID_CONFIG, "Logger kafka.server does not exist!"),
        ("root", SET, "LOUD", ErrorCode.INVALID_CONFIG, "Cannot set the log level of root to LOUD"),
        ("root", DELETE, None, ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger"),
        ("root", APPEND, "INFO", ErrorCode.INVALID_REQUEST, "APPEND operation is not allowed"),
        ("root", 9, "INFO", ErrorCode.INVALID_REQUEST, "Unknown operation type 9"),
    ],
)
def test_a_level_that_cannot_be_is_refused(
    shell: Shell, name: str, operation: int, value: str | None, error: ErrorCode, sentence: str
) -> None:
    code, message = shell.change(name, operation, value)
    assert code == error
    assert message is not None
    assert message.startswith(sentence)
    assert shell.set == []


def test_the_older_request_does_not_know_loggers(shell: Shell) -> None:
    row = am.AlterConfigsResource(resource_type=BROKER_LOGGER, resource_name="1")
    (answer,) = shell.world.call(1, am.AlterConfigsRequest(resources=[row]), 2).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST
