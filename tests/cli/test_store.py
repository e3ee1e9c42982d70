"""`odradek store` over a real file, with and without brokers that have it open."""

import asyncio
import errno
import io
import json
import os
from pathlib import Path

import pytest

from odradek.cli import main
from odradek.store.api import ConditionalOps, Create, Put
from odradek.store.embedded import EmbeddedStore


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    async def fill() -> None:
        store = await EmbeddedStore.open(tmp_path / "odradek-store.sqlite", 120_000)
        for path in ("/brokers", "/brokers/topics", "/brokers/topics/a", "/brokers/topics/b"):
            await store.write([ConditionalOps((Create(path),))], None)
        await store.write([ConditionalOps((Put("/brokers/topics/a", b'{"version":3}'),))], None)
        await store.create("/binary", b"\xff\x00")
        await store.close()

    asyncio.run(fill())
    return tmp_path


def run(capfd, *arguments: object) -> tuple[int, str, str]:
    try:
        code = main.main([str(argument) for argument in arguments])
    except SystemExit as exit_:
        code = int(exit_.code or 0)
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
    assert (
        f"there is no store at {missing}; --store takes its file, its directory, or a broker's properties"
        in err
    )
    assert not missing.exists()
    empty = tmp_path / "empty"
    empty.mkdir()
    code, _, err = run(capfd, "store", "ls", "--store", empty)
    assert code == 1
    assert "name the store's file with --store" in err


def test_two_stores_are_not_one(capfd, directory):
    assert run(capfd, "store", "ls", "--store", directory, "--zookeeper", "127.0.0.1:1") == (
        2,
        "",
        "odradek: --store (or --dir) and --zookeeper are two stores; name one\n",
    )


def test_an_ensemble_of_the_environment_does_not_count_where_a_file_is_named(capfd, directory, monkeypatch):
    monkeypatch.setenv("ODRADEK_ZOOKEEPER", "127.0.0.1:1")
    code, out, _ = run(capfd, "store", "ls", "/brokers", "--dir", directory)
    assert code == 0 and "topics" in out


def test_reading_disturbs_no_session(capfd, directory):
    async def watch() -> None:
        file = directory / "odradek-store.sqlite"
        store = await EmbeddedStore.open(file, 120_000)
        await store.create("/e", ephemeral=True)
        code, out, _ = await asyncio.to_thread(run, capfd, "store", "stat", "--json", "--store", file)
        assert code == 0
        assert [row["session_id"] for row in json.loads(out)["sessions"]] == [store.session_id]
        assert await store.exists("/e") is not None
        await store.set("/e", b"goes on")
        await store.close()

    asyncio.run(watch())


# ---- export and import


def test_a_store_goes_through_a_file_into_another(capfd, directory, tmp_path):
    file, other = tmp_path / "cluster.jsonl", tmp_path / "other.sqlite"
    code, out, _ = run(capfd, "store", "export", file, "--store", directory, "--json")
    assert code == 0
    assert json.loads(out) == {"nodes": 5, "cluster_id": None, "file": str(file)}
    assert file.stat().st_mode & 0o777 == 0o600, "it may hold passwords"
    code, out, _ = run(capfd, "store", "import", file, "--store", other)
    assert code == 0
    assert f"5 nodes of cluster None in {other}; its brokers can start" in out
    listed = [
        run(capfd, "store", "ls", "--all", "--json", "--store", place)[1] for place in (directory, other)
    ]
    before, after = ([node["path"] for node in json.loads(text)] for text in listed)
    assert before == after
    _, out, _ = run(capfd, "store", "get", "/brokers/topics/a", "--store", other)
    assert out == '{"version":3}\n'
    assert run(capfd, "store", "get", "/binary", "--store", other, "--json")[0] == 0


def test_a_pipe_will_do(capfd, directory, tmp_path, monkeypatch):
    code, out, _ = run(capfd, "store", "export", "-", "--store", directory)
    assert code == 0
    assert len(out.splitlines()) == 6
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(out.encode())))
    assert run(capfd, "store", "import", "-", "--store", tmp_path / "other.sqlite")[0] == 0


def test_an_import_spoils_nothing(capfd, directory, tmp_path):
    file, other = tmp_path / "cluster.jsonl", tmp_path / "other.sqlite"
    run(capfd, "store", "export", file, "--store", directory)
    code, _, err = run(capfd, "store", "import", file, "--store", directory)
    assert code == 1
    assert "there is a cluster here already (binary, brokers); --force removes it" in err
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    code, _, err = run(capfd, "store", "import", file, "--store", other)
    assert code == 1
    assert "the export was cut off: 4 of 5 nodes are there" in err
    file.write_text("")
    assert (
        run(capfd, "store", "import", file, "--store", other)[2] == f"odradek: {file}: the export is empty\n"
    )
    assert not other.exists()
    code, _, err = run(capfd, "store", "import", tmp_path, "--store", other)
    assert code == 2


def test_an_export_is_whole_or_not_there(capfd, directory, tmp_path):
    code, _, err = run(capfd, "store", "export", tmp_path / "no" / "where", "--store", directory)
    assert code == 1
    assert "cannot be written: No such file or directory" in err


def test_nothing_is_left_of_an_export_for_which_there_was_no_room(capfd, directory, tmp_path, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "new").mkdir()
    monkeypatch.setattr("odradek.cli.store.os.fsync", full)
    code, _, err = run(capfd, "store", "export", tmp_path / "new" / "cluster", "--store", directory)
    assert code == 1 and err.endswith("cluster cannot be written: No space left on device\n")
    assert list((tmp_path / "new").iterdir()) == []


def test_what_unicode_calls_the_end_of_a_line_is_none_in_an_export(capfd, directory, tmp_path):
    """In a node of somebody's own, or in a setting's value."""
    value = tmp_path / "value"
    value.write_text("a\u2028b\x85c", encoding="utf-8")
    assert run(capfd, "store", "set", "/binary", value, "--yes", "--store", directory)[0] == 0
    file, other = tmp_path / "cluster.jsonl", tmp_path / "other.sqlite"
    assert run(capfd, "store", "export", file, "--store", directory)[0] == 0
    assert run(capfd, "store", "import", file, "--store", other)[0] == 0
    assert run(capfd, "store", "get", "/binary", "--store", other)[1] == "a\u2028b\x85c\n"


def test_registered_brokers_are_told_of(capfd, directory, tmp_path):
    async def with_a_broker() -> None:
        store = await EmbeddedStore.open(directory / "odradek-store.sqlite", 120_000)
        await store.create("/brokers/ids")
        await store.create("/brokers/ids/4", ephemeral=True)
        file = tmp_path / "cluster.jsonl"
        code, _, err = await asyncio.to_thread(run, capfd, "store", "export", file, "--store", directory)
        assert code == 0
        assert "broker 4 is registered: what it changes from now on, if it runs, is not in the export" in err
        code, _, err = await asyncio.to_thread(
            run, capfd, "store", "import", file, "--force", "--store", directory
        )
        assert code == 1
        assert "brokers are registered here (4); stop them first" in err
        await store.close()

    asyncio.run(with_a_broker())


STATE = {"version": 1, "leader": 1, "isr": [1], "leader_epoch": 0, "controller_epoch": 1}


def test_a_node_is_mended_only_when_told_and_only_with_what_can_be_read(capfd, directory):
    where = ("--store", directory)
    path, file = "/brokers/topics/a", directory / "value"
    file.write_text('{"version":3,"partitions":{"0":[1,1]},"adding_replicas":{},"removing_replicas":{}}')
    code, out, err = run(capfd, "store", "set", path, file, "--yes", *where)
    assert (code, out) == (1, "")
    assert "that could not be read either: /brokers/topics/a: partitions.0: expected each broker once" in err
    good = '{"version":3,"partitions":{"0":[1,2]},"adding_replicas":{},"removing_replicas":{}}'
    file.write_text(good + "\n")
    code, out, _ = run(capfd, "store", "set", path, file, *where)
    assert code == 1
    assert out.startswith(f"{path}: nothing is changed yet; --yes does it.\n") and f"then: {good}" in out
    assert run(capfd, "store", "get", path, *where)[1] == '{"version":3}\n'
    code, out, _ = run(capfd, "store", "set", path, file, "--yes", "--json", *where)
    assert (code, json.loads(out)["done"]) == (0, True)
    assert run(capfd, "store", "get", path, *where)[1] == good + "\n"
    code, _, err = run(capfd, "store", "set", "/brokers/topics/none", file, "--yes", *where)
    assert code == 1 and "there is no node /brokers/topics/none" in err


def test_a_node_is_deleted_only_when_told_and_only_without_nodes_below(capfd, directory):
    where = ("--store", directory)
    code, out, _ = run(capfd, "store", "delete", "/brokers/topics/b", *where)
    assert code == 1 and "nothing is changed yet" in out
    assert run(capfd, "store", "delete", "/brokers/topics/b", "--yes", *where)[0] == 0
    assert run(capfd, "store", "get", "/brokers/topics/b", *where)[0] == 1
    code, _, err = run(capfd, "store", "delete", "/brokers", "--yes", *where)
    assert (code, err) == (
        1,
        "odradek: /brokers has 1 node below it, first /brokers/topics; delete those first\n",
    )


@pytest.mark.parametrize("verb", ["set", "delete"])
def test_what_somebody_else_changed_meanwhile_is_left_alone(capfd, directory, monkeypatch, verb):
    """Between the look and the writing: the value that was shown is not there any more."""
    from odradek.cli import store_edits

    writing = store_edits.writing

    def late(place):
        asyncio.run(_touch(directory))
        return writing(place)

    monkeypatch.setattr(store_edits, "writing", late)
    value = directory / "value"
    value.write_text("x")
    arguments = ("/binary", value) if verb == "set" else ("/binary",)
    code, _, err = run(capfd, "store", verb, *arguments, "--yes", "--store", directory)
    assert (code, err) == (1, "odradek: /binary has changed since it was shown; run the command again\n")
    monkeypatch.undo()
    assert run(capfd, "store", "get", "/binary", "--store", directory)[1] == "theirs\n"


@pytest.mark.parametrize("verb", ["set", "delete"])
def test_what_somebody_else_deleted_meanwhile_has_changed_too(capfd, directory, monkeypatch, verb):
    from odradek.cli import store_edits

    writing = store_edits.writing

    async def delete() -> None:
        store = await EmbeddedStore.open(directory / "odradek-store.sqlite", 120_000)
        await store.delete("/binary")
        await store.close()

    def late(place):
        asyncio.run(delete())
        return writing(place)

    monkeypatch.setattr(store_edits, "writing", late)
    value = directory / "value"
    value.write_text("x")
    arguments = ("/binary", value) if verb == "set" else ("/binary",)
    code, _, err = run(capfd, "store", verb, *arguments, "--yes", "--store", directory)
    assert (code, err) == (1, "odradek: /binary has changed since it was shown; run the command again\n")


async def _touch(directory: Path) -> None:
    store = await EmbeddedStore.open(directory / "odradek-store.sqlite", 120_000)
    await store.set("/binary", b"theirs")
    await store.close()


@pytest.mark.parametrize(
    ("path", "bad"),
    [
        ("/brokers/topics/t/partitions/0/state", json.dumps({**STATE, "leader": 2})),
        ("/config/topics/t", "{}"),
        ("/controller_epoch", "one"),
        ("/cluster/id", "x"),
        ("/feature", "x"),
        ("/latest_producer_id_block", "x"),
        ("/admin/reassign_partitions", "x"),
        ("/brokers/ids/1", "{}"),
        ("/controller", "{}"),
        ("/isr_change_notification/isr_change_0000000001", "x"),
        ("/admin/preferred_replica_election", "x"),
        ("/config/changes/config_change_0000000001", "{}"),
        (
            "/config/changes/config_change_0000000001",
            '{"version":2,"entity_path":"nonesuch/t"}',
        ),
    ],
)
def test_every_kind_of_node_that_brokers_read_is_checked(path, bad):
    from odradek.cli.store_edits import why_unreadable
    from odradek.store.api import Node, Stat

    stat = Stat(0, 0, 1, 1, 0)
    assert why_unreadable(path, Node(bad.encode(), stat)).startswith(f"{path}: ")
    assert why_unreadable("/somebody/elses", Node(bad.encode(), stat)) is None


def test_a_file_that_is_no_export_is_named(capfd, tmp_path):
    (notes := tmp_path / "notes.txt").write_text("none of it\n")
    target = tmp_path / "new.sqlite"
    code, out, err = run(capfd, "store", "import", notes, "--store", target)
    assert (code, out) == (1, "") and err.startswith(f"odradek: {notes}: line 1: not JSON (")
    assert "`odradek store export` writes such a file" in err and not target.exists()
