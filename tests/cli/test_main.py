"""The group of verbs: quick help, one sentence for an error, exit codes."""

import importlib
import json
import os
import re
import resource
import subprocess
import sys

import click
import pytest

from odradek import __version__
from odradek.cli import (
    cluster,
    config,
    elect,
    group,
    groups,
    journal,
    main,
    reassign,
    roll,
    terminal,
    topic,
    verbs,
)

MOST_MODULES = 12
HEAVY = ("rich", "numpy", "pyarrow", "pyspark", "confluent_kafka", "asyncio", "sqlite3", "odradek.protocol")


def run(capsys, *arguments):
    """(exit code, standard output, standard error) of the command in this process."""
    try:
        code = main.main(list(arguments))
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def modules_of(*arguments):
    """(what it prints, the modules it imports) of `odradek ARGUMENTS` in a process of its own."""
    script = (
        "import sys, json\n"
        "from odradek.cli.main import main\n"
        f"main({list(arguments)!r})\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    *lines, modules = answer.stdout.splitlines()
    return lines, json.loads(modules)


def test_help_lists_every_verb_and_imports_none_of_them():
    """The time of `odradek --help` goes into imports: what is not imported costs nothing on any machine."""
    help_lines, loaded = modules_of("--help")
    assert [name for name in loaded if name.startswith("odradek")] == [
        "odradek",
        "odradek.cli",
        "odradek.cli.main",
        "odradek.cli.terminal",
        "odradek.cli.verbs",
    ]
    assert not {*HEAVY, "click"} & set(loaded)
    for verb in verbs.VERBS:
        assert any(line.split()[:1] == [verb] for line in help_lines), verb


def every_command(command=group.odradek, path=()):
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from every_command(command.get_command(context, name), (*path, name))


# One Python that has imported the entry point, click and what most verbs need of the standard library, none of which is HEAVY,
# and a child of it for each command: what is loaded by then is the same every time.
IMPORTS_OF_EACH = """
import gc, json, os, sys
import click, ipaddress, pathlib, shutil, textwrap, urllib.parse
from odradek.cli.main import main
gc.freeze()
loaded = {}
for arguments in json.loads(sys.argv[1]):
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            code = main(arguments) or 0
        except SystemExit as end:
            code = end.code or 0
        finally:
            with os.fdopen(theirs, "w") as answer:
                json.dump([code, sorted(sys.modules)], answer)
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as answer:
        loaded[" ".join(arguments)] = json.load(answer)
    os.waitpid(child, 0)
json.dump(loaded, sys.stdout)
"""


def test_the_help_of_a_verb_imports_what_its_options_need_and_not_what_its_work_needs():
    commands = [[*path, "--help"] for path in every_command()]
    answer = subprocess.run(
        [sys.executable, "-c", IMPORTS_OF_EACH, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded_by = json.loads(answer.stdout)
    assert len(loaded_by) == len(commands) > 60
    for command, (code, loaded) in loaded_by.items():
        assert code == 0, command
        assert not set(HEAVY) & set(loaded), command
        ours = [name for name in loaded if name.startswith("odradek.") and not name.startswith("odradek.cli")]
        assert len(ours) <= MOST_MODULES, (command, ours)


def processor_seconds(*command):
    """User and system time of the quickest of some runs: others on this machine make a run longer, never shorter."""
    found = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def test_help_takes_100_ms_of_processor_time_at_most():
    """Three times what an empty Python takes, where the machine is so slow that this is more."""
    allowed = max(0.100, 3 * processor_seconds("-c", "pass"))
    assert processor_seconds("-m", "odradek.cli.main", "--help") <= allowed


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_list_of_verbs_is_laid_out_as_click_does_it(columns):
    context = click.Context(
        group.odradek,
        info_name="odradek",
        terminal_width=min(columns, 80) - 2,
        **group.odradek.context_settings,
    )
    assert verbs.help_page(columns) == context.get_help()


@pytest.mark.parametrize("path", [(), ("topic",), ("group",), ("group", "seek"), ("why",)], ids=" ".join)
def test_help_keeps_to_forty_columns(capsys, monkeypatch, path):
    monkeypatch.setattr(terminal, "columns", lambda: 40)
    code, out, _ = run(capsys, *path, "--help")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 40


def test_nothing_asked_is_answered_with_what_can_be_asked(capsys):
    code, out, err = run(capsys)
    assert (code, out) == (2, "")
    assert err == verbs.help_page(80) + "\n"
    code, out, err = run(capsys, "topic")
    assert (code, out) == (2, "")
    assert err.startswith("Usage: odradek topic ")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["topic", "list", "--bootstrap", "127.0.0.1:1"], 1, "no broker answers at 127.0.0.1:1"),
        (["topic", "list", "--bootstrap", "localhost"], 2, "host:port"),
        (["topic", "list", "--nonsense"], 2, "--nonsense"),
        (["tpic", "list"], 2, "did you mean topic?"),
        (["start", "--config", "/nonexistent/server.properties"], 2, "No such file"),
    ],
)
def test_an_error_is_json_where_json_is_asked_for(capsys, arguments, code, words):
    answer = run(capsys, *arguments, "--json")
    assert answer[:2] == (code, "")
    error = json.loads(answer[2])
    assert (error["ok"], error["exit_code"]) == (False, code)
    assert words in error["error"]


def test_json_behind_two_dashes_is_no_option(capsys):
    code, _, err = run(capsys, "topic", "list", "--bootstrap", "127.0.0.1:1", "--", "--json")
    assert code == 2
    assert err.startswith("odradek: ")


@pytest.mark.parametrize(
    "table",
    [
        verbs.VERBS,
        *(module.VERBS for module in (topic, groups, cluster, config, reassign, elect, roll, journal)),
    ],
    ids=["odradek", "topic", "group", "cluster", "config", "reassign", "elect", "roll", "journal"],
)
def test_every_verb_of_the_tables_is_there_and_takes_json(table):
    for name, (module, attribute, words) in table.items():
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command), name
        assert words.endswith((".", "?"))
        if not isinstance(command, click.Group):
            options = {option for parameter in command.params for option in parameter.opts}
            assert "--json" in options, name


def test_a_group_of_another_room_has_json_on_every_command():
    for name in ("store", "log"):  # what `wire` writes is JSON, or hex, already
        module, attribute, _ = verbs.VERBS[name]
        commands = getattr(importlib.import_module(module), attribute)
        for command in commands.commands.values():
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


def test_a_wrong_option_of_sim_is_one_sentence_too():
    """It runs in another process, for the sake of its hashes."""
    unset = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    answer = subprocess.run(
        [sys.executable, "-m", "odradek", "sim", "--seed", "x"], capture_output=True, text=True, env=unset
    )
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "odradek: Invalid value for '--seed': 'x' is not a valid integer.\n"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["up", "--port", "a"], "'--port': 'a' is not a valid integer."),
        (["topic", "create", "t", "-p", "1-3"], "'--partitions' / '-p': '1-3' is not a valid integer."),
        (["journal", "record", "f", "--every", "a"], "'--every': 'a' is not a valid number."),
    ],
)
def test_a_value_that_is_no_number_is_not_said_to_be_no_range(capsys, arguments, why):
    """click's words, where an option has bounds: "is not a valid integer range"."""
    assert main.main(arguments) == 2
    assert capsys.readouterr().err == f"odradek: Invalid value for {why}\n"


def test_no_cluster_is_one_sentence_that_names_the_address(capsys):
    code, _, err = run(capsys, "topic", "list", "--bootstrap", "127.0.0.1:1")
    assert code == 1
    assert err.count("\n") == 1
    assert "127.0.0.1:1" in err


def test_a_bootstrap_address_without_a_port_is_said_so(capsys):
    code, _, err = run(capsys, "cluster", "health", "-b", "localhost")
    assert code == 2
    assert "host:port" in err


def test_an_address_that_is_a_url_is_said_so(capsys):
    code, _, err = run(capsys, "cluster", "health", "-b", "http://127.0.0.1:9092")
    assert (code, err) == (
        2,
        "odradek: bootstrap address 'http://127.0.0.1:9092': expected host:port, as in localhost:9092\n",
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reassign", "plan"], "no goal is given: say --drain, --add, --replication-factor or --rebalance"),
        (["reassign", "plan", "--drain", "x"], "--drain x: expected broker ids"),
        (["reassign", "plan", "--rebalance", "--add", "1;2"], "--add 1;2: expected broker ids"),
        (["shutdown-impact", "--broker", "x"], "--broker x: expected broker ids"),
        (["group", "list", "--state", "Nonsense"], "--state Nonsense: there are Empty, "),
        (["txn", "list", "--state", "Nonsense"], "--state Nonsense: there are Empty, "),
        (
            ["group", "seek", "g", "-t", "a", "--to-timestamp", "yesterday"],
            "expected 1h (ago), 2026-01-31T12:00",
        ),
        (
            ["topic", "create", "x", "--assign", "1,2:3,3"],
            "--assign 1,2:3,3: broker 3 stands twice in one partition",
        ),
        (
            ["reassign", "cancel", "orders-0"],
            "there is no file orders-0; a partition is named by --partition orders-0",
        ),
        (["topic", "produce", "x", "-K", ""], "--key-delimiter is empty; expected the text between"),
        (["topic", "produce", "x", "-K", ":", "--format", "json"], "--key-delimiter is for lines of text"),
        (["topic", "consume", "x", "-f", "%v", "--json"], "--format and --json are two forms"),
        (["topic", "produce", "x", "-H", "\udcff=1"], "'\\udcff' is no text in the encoding of this shell"),
    ],
)
def test_a_wrong_question_is_refused_before_any_broker_is_asked(capsys, arguments, words):
    code, out, err = run(capsys, *arguments, "-b", "127.0.0.1:1")
    assert (code, out) == (2, "")
    assert words in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [["why", "t", "--store"], ["journal", "show"], ["what-if", "--kill", "1", "--journal"], ["store", "ls", "--store"]],
    ids=" ".join,
)  # fmt: skip
def test_properties_that_are_no_text_are_said_so_by_whoever_reads_them(capsys, tmp_path, arguments):
    file = tmp_path / "server.properties"
    file.write_bytes(b"broker.id=1\nbroker.rack=\xff\n")
    code, out, err = run(capsys, *arguments, str(file))
    assert (code, out) == (2, "")
    assert err == f"odradek: {file}: not a text in UTF-8 (invalid start byte)\n"


@pytest.mark.parametrize("room", ["store", "wire"])
def test_a_group_of_commands_is_a_group_of_verbs(capsys, room):
    assert "Verbs:" in run(capsys, room, "--help")[1]
    assert run(capsys, room, "gett")[0] == 2
    near = {"store": "exprt", "wire": "decod"}[room]
    guess = {"store": "export", "wire": "decode"}[room]
    assert run(capsys, room, near)[2] == f"odradek: no verb {near}; did you mean {guess}?\n"


@pytest.mark.parametrize("room", ["store", "wire"])
def test_the_help_of_a_group_says_the_whole_first_sentence_of_each_verb(capsys, monkeypatch, room):
    monkeypatch.setattr(terminal, "columns", lambda: 80)
    listed = " ".join(run(capsys, room, "--help")[1].partition("Verbs:")[2].split())
    for name, command in getattr(importlib.import_module(f"odradek.cli.{room}"), room).commands.items():
        sentence = " ".join((command.help or "").split()).partition(". ")[0].rstrip(".")
        assert sentence
        assert f"{name} {sentence}" in listed


def test_the_states_that_are_asked_for_are_those_there_are():
    from odradek.cli.groups.list import STATES as of_groups
    from odradek.cli.transactions.list import STATES as of_transactions
    from odradek.coordinator.consumer_group import ConsumerGroupState
    from odradek.coordinator.group_states import GroupState
    from odradek.coordinator.transaction_states import TransactionState

    assert {state.value for kind in (GroupState, ConsumerGroupState) for state in kind} == set(of_groups)
    assert {state.title for state in TransactionState} == set(of_transactions)


def test_a_report_that_cannot_be_written_is_said_before_the_demo_runs(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    report = tmp_path / "file" / "report.html"
    code, out, err = run(capsys, "demo", "--dir", str(tmp_path / "demo"), "--report", str(report))
    assert (code, out, err) == (1, "", f"odradek: {report.parent}: File exists\n")


def test_a_report_that_is_a_directory_is_said_before_the_demo_runs(capsys, tmp_path, monkeypatch):
    """It was found out when the demo was over, and its report lost."""
    from odradek.demo import run as demo_run

    monkeypatch.setattr(demo_run, "run", lambda *_: pytest.fail("the demo runs"))
    code, out, err = run(capsys, "demo", "--dir", str(tmp_path / "demo"), "--report", str(tmp_path))
    assert (code, out) == (2, "") and "is a directory" in err


def test_a_demo_does_not_remove_what_it_is_to_read(capsys, tmp_path, monkeypatch):
    from odradek.demo import run as demo_run

    monkeypatch.setattr(demo_run, "check_extras", lambda: None)
    monkeypatch.setattr(demo_run, "run", lambda *_: pytest.fail("the demo runs"))
    (tmp_path / ".odradek-demo").touch()
    file = tmp_path / "mine.csv"
    file.write_text("a,b\n1,2\n")
    code, out, err = run(capsys, "demo", "--dir", str(tmp_path), "--input", str(file))
    assert (code, out) == (2, "")
    assert err == f"odradek: {file} is in {tmp_path}, which is emptied before a demo; move one of them\n"
    assert file.exists()


def test_a_demo_that_lacks_what_it_needs_leaves_the_former_report(capsys, tmp_path, monkeypatch):
    from odradek.demo import run as demo_run

    monkeypatch.setattr(demo_run, "EXTRAS", ("no_such_module",))
    (tmp_path / ".odradek-demo").touch()
    (tmp_path / "report.html").write_text("of the run before")
    assert run(capsys, "demo", "--dir", str(tmp_path)) == (
        1,
        "",
        "odradek: no_such_module not installed; pip install 'odradek[demo]' brings them\n",
    )
    assert (tmp_path / "report.html").exists()


def test_a_mistake_of_ours_is_a_sentence_and_a_trace_only_on_request(capsys, monkeypatch):
    def broken(*_args, **_options):
        raise ZeroDivisionError("half a record")

    monkeypatch.setattr(group.odradek, "main", broken)
    monkeypatch.delenv("ODRADEK_TRACE", raising=False)
    code, _, err = run(capsys, "topic", "list")
    assert code == 1
    assert err == (
        "odradek: ZeroDivisionError: half a record (a mistake of ours; ODRADEK_TRACE=1 shows where)\n"
    )
    monkeypatch.setenv("ODRADEK_TRACE", "1")
    with pytest.raises(ZeroDivisionError):
        main.main(["topic", "list"])


@pytest.mark.parametrize(
    "verb",
    [["verify", "--table", "x"], ["dlq", "show", "--table", "x"], ["dlq", "replay", "--table", "x"]],
    ids=" ".join,
)
def test_a_verb_without_its_extra_names_it(verb):
    """In a Python of its own, where neither Arrow nor numpy can be found."""
    program = (
        "import sys\n"
        "class Nowhere:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('pyarrow', 'numpy', 'pyspark', 'deltalake'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Nowhere())\n"
        "from odradek.cli.main import main\n"
        "sys.exit(main())\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, "spark", *verb], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert re.fullmatch(
        r"odradek: \w+ is not installed; pip install 'odradek\[spark\]' brings it\n", ended.stderr
    )


def test_version_is_that_of_the_code_which_runs(capsys):
    """And not of what is installed: an editable install keeps the metadata of when it was made, an archive has none."""
    code, out, _ = run(capsys, "--version")
    assert (code, out) == (0, f"{__version__}\n")


def test_a_name_without_its_option_is_told_which_one_it_lacks(capsys):
    assert run(capsys, "config", "describe", "orders", "-b", "127.0.0.1:1") == (
        2,
        "",
        "odradek: orders: whose settings? Say one of --topic NAME, --broker ID, --cluster\n",
    )
