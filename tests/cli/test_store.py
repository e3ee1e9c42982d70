"""`odradek store` over a real file, with and without brokers that have it open."""

import asyncio
import json
from pathlib import Path

import pytest

from odradek.cli import main
from odradek.store.api import ConditionalOps, Create, Put
from odradek.store.embedded import EmbeddedStore


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    async def fill() -> None:
        store = await EmbeddedStore.open(tmp_path / "odradek-store.sqlite", 6000)
        for path in ("/brokers", "/brokers/topics", "/brokers/topics/a", "/brokers/topics/b"):
            await store.write([ConditionalOps((Create(path),))], None)
        await store.write([ConditionalOps((Put("/brokers/topics/a", b'{"version":3}'),))], None)
        await store.create("/binary", b"\xff\x00")
        await store.close()

    asyncio.run(fill())
    return tmp_path


def run(capfd, *arguments: object) -> tuple[int, str, str]:
    code = main.main([str(argument) for argument in arguments])
    out, err = capfd.readouterr()
    return code, out, err


def test_ls_lists_children_or_everything_below(capfd, directory):
    code, out, _ = run(capfd, "store", "ls", "--store", directory)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["PATH", "/binary", "/brokers"]
    code, out, _ = run(capfd, "store", "ls", "/brokers", "--all", "--json", "--store", directory)
    nodes = json.loads(out)
    assert [(node["path"], node["version"]) for node in nodes] == [
        ("/brokers/topics", 0),
        ("/brokers/topics/a", 1),
        ("/brokers/topics/b", 0),
    ]
    assert nodes[0]["ephemeral_owner"] is None


def test_get_writes_the_value_as_it_is(capfd, directory):
    file = directory / "odradek-store.sqlite"
    assert run(capfd, "store", "get", "/brokers/topics/a", "--store", file)[:2] == (0, '{"version":3}\n')
    _, out, _ = run(capfd, "store", "get", "/brokers/topics/a", "--json", "--store", file)
    assert json.loads(out)["value"] == '{"version":3}'
    _, out, _ = run(capfd, "store", "get", "/binary", "--json", "--store", file)
    assert json.loads(out)["value"] is None


def test_stat_of_a_node_and_of_the_store(capfd, directory):
    _, out, _ = run(capfd, "store", "stat", "/brokers/topics", "--json", "--store", directory)
    facts = json.loads(out)
    assert (facts["children"], facts["cversion"], facts["bytes"]) == (2, 2, 0)
    _, out, _ = run(capfd, "store", "stat", "--json", "--store", directory)
    facts = json.loads(out)
    assert facts["nodes"] == 6
    assert facts["sessions"] == []
    assert "zxid" in run(capfd, "store", "stat", "--store", directory)[1]


def test_the_properties_of_a_broker_name_its_store(capfd, directory):
    properties = directory / "server.properties"
    file = directory / "odradek-store.sqlite"
    properties.write_text(f"broker.id=1\nlog.dirs={directory}/data\nodradek.store={file}\n")
    assert run(capfd, "store", "ls", "/brokers", "--store", properties)[0] == 0


def test_what_is_not_there_is_said_and_not_made(capfd, directory, tmp_path):
    code, _, err = run(capfd, "store", "get", "/brokers/topics/x/y", "--store", directory)
    assert code == 1
    assert "there is no node /brokers/topics/x/y; below /brokers/topics there are: a, b" in err
    missing = tmp_path / "elsewhere.sqlite"
    code, _, err = run(capfd, "store", "ls", "--store", missing)
    assert code == 1
    assert f"there is no store at {missing}" in err
    assert not missing.exists()
    empty = tmp_path / "empty"
    empty.mkdir()
    code, _, err = run(capfd, "store", "ls", "--store", empty)
    assert code == 1
    assert "name the store's file with --store" in err


def test_reading_disturbs_no_session(capfd, directory):
    async def watch() -> None:
        file = directory / "odradek-store.sqlite"
        store = await EmbeddedStore.open(file, 6000)
        await store.create("/e", ephemeral=True)
        code, out, _ = await asyncio.to_thread(run, capfd, "store", "stat", "--json", "--store", file)
        assert code == 0
        assert [row["session_id"] for row in json.loads(out)["sessions"]] == [store.session_id]
        assert await store.exists("/e") is not None
        await store.set("/e", b"goes on")
        await store.close()

    asyncio.run(watch())
