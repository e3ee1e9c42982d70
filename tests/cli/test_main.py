"""The group of verbs: quick help, one sentence for an error, exit codes."""

import importlib
import json
import subprocess
import sys

import click
import pytest

from odradek.cli import cluster, config, elect, journal, main, reassign, roll, topic

HEAVY = ("rich", "numpy", "pyarrow", "pyspark", "confluent_kafka", "asyncio", "sqlite3", "odradek.protocol")


def run(capsys, *arguments):
    """(exit code, standard output, standard error) of the command in this process."""
    try:
        code = main.main(list(arguments))
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_help_lists_every_verb_and_imports_none_of_them():
    """The 100 ms of `odradek --help` are imports: what is not imported costs nothing on any machine."""
    script = (
        "import sys, json\n"
        "from odradek.cli.main import main\n"
        "main(['--help'])\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    *help_lines, modules = answer.stdout.splitlines()
    loaded = json.loads(modules)
    assert [name for name in loaded if name.startswith("odradek")] == [
        "odradek",
        "odradek.cli",
        "odradek.cli.main",
    ]
    assert not set(HEAVY) & set(loaded)
    for verb in main.VERBS:
        assert any(line.split()[:1] == [verb] for line in help_lines), verb


@pytest.mark.parametrize(
    "verbs",
    [main.VERBS, *(group.VERBS for group in (topic, cluster, config, reassign, elect, roll, journal))],
    ids=["odradek", "topic", "cluster", "config", "reassign", "elect", "roll", "journal"],
)
def test_every_verb_of_the_tables_is_there_and_takes_json(verbs):
    for name, (module, attribute, words) in verbs.items():
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command), name
        assert words.endswith((".", "?"))
        if not isinstance(command, click.Group):
            options = {option for parameter in command.params for option in parameter.opts}
            assert "--json" in options, name


def test_a_group_of_another_room_has_json_on_every_command():
    for name in ("store", "log"):  # what `wire` writes is JSON, or hex, already
        module, attribute, _ = main.VERBS[name]
        group = getattr(importlib.import_module(module), attribute)
        for command in group.commands.values():
            assert "--json" in {option for parameter in command.params for option in parameter.opts}, (
                command.name
            )


def test_a_misspelt_verb_gets_the_nearest_one(capsys):
    code, _, err = run(capsys, "tpic", "list")
    assert (code, err) == (2, "odradek: no verb tpic; did you mean topic?\n")
    code, _, err = run(capsys, "topic", "creat")
    assert (code, err) == (2, "odradek: no verb creat; did you mean create?\n")
    code, _, err = run(capsys, "zzz")
    assert code == 2
    assert "there are up, start, demo" in err


def test_a_wrong_option_is_exit_code_2_without_a_trace(capsys):
    code, out, err = run(capsys, "topic", "list", "--nonsense")
    assert code == 2
    assert err.startswith("odradek: ") and "--nonsense" in err
    assert out == "" and "Traceback" not in err


def test_no_cluster_is_one_sentence_that_names_the_address(capsys):
    code, _, err = run(capsys, "topic", "list", "--bootstrap", "127.0.0.1:1")
    assert code == 1
    assert err.count("\n") == 1
    assert "127.0.0.1:1" in err


def test_a_bootstrap_address_without_a_port_is_said_so(capsys):
    code, _, err = run(capsys, "cluster", "health", "-b", "localhost")
    assert code == 2
    assert "host:port" in err


def test_a_mistake_of_ours_is_a_sentence_and_a_trace_only_on_request(capsys, monkeypatch):
    def broken(*_args, **_options):
        raise ZeroDivisionError("half a record")

    monkeypatch.setattr(main.odradek, "main", broken)
    monkeypatch.delenv("ODRADEK_TRACE", raising=False)
    code, _, err = run(capsys, "topic", "list")
    assert code == 1
    assert err == (
        "odradek: ZeroDivisionError: half a record (a mistake of ours; ODRADEK_TRACE=1 shows where)\n"
    )
    monkeypatch.setenv("ODRADEK_TRACE", "1")
    with pytest.raises(ZeroDivisionError):
        main.main(["topic", "list"])


def test_version_is_the_packages(capsys):
    from importlib.metadata import version

    code, out, _ = run(capsys, "--version")
    assert (code, out.strip()) == (0, version("odradek"))
