"""Writes what is made from the tables in the code: the pages of docs/reference, held equal by tests/test_docs.py, and the
flat codecs in src/odradek/protocol/flat, held equal by tests/protocol/test_flat.py.

python docs/generate.py
"""

from collections.abc import Callable
from inspect import cleandoc
from pathlib import Path

import click

from odradek.cli.group import odradek
from odradek.controller import partition_states, replica_states
from odradek.model.settings import BROKER_SETTINGS, OPENED_ONCE, TOPIC_SETTINGS, Setting
from odradek.model.settings_unserved import is_relied_on
from odradek.protocol import flat, flattening
from odradek.protocol.api_keys import APIS, BETWEEN_BROKERS, CONTROLLER_ONLY, SERVED
from odradek.server.exporter.page import families

REFERENCE = Path(__file__).parent / "reference"
FLAT = Path(flat.__file__).parent
HEAD = "<!-- Written by docs/generate.py from the tables in the code. Change those. -->\n\n"


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def _table(columns: list[str], rows: list[list[object]]) -> str:
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def settings() -> str:
    def when(setting: Setting) -> str:
        """From when on a new value acts."""
        return "at once" if setting.dynamic and setting.name not in OPENED_ONCE else "at the start"

    def rows(table: dict[str, Setting], *, acted_on: bool) -> list[list[object]]:
        return [
            [
                f"`{s.name}`",
                s.type,
                "" if s.default is None else f"`{s.default}`",
                s.valid or "",
                *([when(s)] if acted_on else []),
                f"{s.doc} A start is refused." if table is BROKER_SETTINGS and is_relied_on(s) else s.doc,
            ]
            for s in table.values()
            if s.acted_on is acted_on
        ]

    columns = ["name", "type", "default", "valid", "what it does"]
    page = HEAD + (
        "# Settings\n\nApache's property names; ours begin with `odradek.`. Those that act at once can be changed while a"
        " broker runs, for one broker, for all, or for a topic: `odradek config set`, or any tool that speaks"
        " IncrementalAlterConfigs.\n"
    )
    for title, table in (("Broker", BROKER_SETTINGS), ("Topic", TOPIC_SETTINGS)):
        page += f"\n## {title}\n\n" + _table([*columns[:4], "acts", columns[4]], rows(table, acted_on=True))
        others = rows(table, acted_on=False)
        if others:
            page += (
                "\nAccepted and reported by DescribeConfigs, so that configurations and tools carry over; nothing here"
                " acts on them. Where it says that a start is refused, that holds for any value but the default, unless"
                " `odradek.accept.unserved=true`:\n\n" + _table(columns, others)
            )
    return page


def api_keys() -> str:
    def who(key: int) -> str:
        words = ["between brokers"] if key in BETWEEN_BROKERS else []
        if key in CONTROLLER_ONLY:
            words.append("controller only")
        return ", ".join(words)

    served = [[key, APIS[key].name, f"{low}-{high}", who(key)] for key, (low, high) in sorted(SERVED.items())]
    known = [
        [key, api.name, f"{api.first_version}-{api.last_version}", who(key)]
        for key, api in sorted(APIS.items())
        if key not in SERVED
    ]
    columns = ["key", "name", "versions", ""]
    return (
        HEAD
        + "# API keys\n\nServed, as ApiVersions says. Produce 0-2 are listed because some librdkafka releases compress"
        " nothing otherwise; they are answered with UNSUPPORTED_VERSION.\n\n"
        + _table(columns, served)
        + "\nNot served; `odradek wire` can read and write them:\n\n"
        + _table(columns, known)
    )


COMMANDS = """# Commands

An error is one sentence on standard error. Exit codes of all verbs: 0 the condition holds, or the action is done; 1 it does
not hold, or the action failed; 2 the arguments are invalid; 130 Ctrl-C ended it. Verbs that run until Ctrl-C (`up`, `test-cluster`, `journal record`, jobs
of `spark`) end with 0 by it. `odradek cluster health` has 3: nothing is seen to be wrong, and not all is known. `odradek start` has more: 2 configuration, 3 port or address, 4 log directory of another
broker or cluster, 5 disk, 6 store, 7 broker id. `odradek sim` has 127, 128 and 129 ([simulator](../simulator.md)), and
`odradek test-cluster -- COMMAND` ends as COMMAND does (126 and 127: it could not be started).

| environment | what it means |
|---|---|
| `ODRADEK_BOOTSTRAP` | stands for `--bootstrap` |
| `ODRADEK_STORE`, `ODRADEK_ZOOKEEPER` | stand for `--store` and `--zookeeper` of `odradek store` |
| `ODRADEK_LOG_LEVEL` | of a broker's log: DEBUG, INFO (the default), WARNING or ERROR |
| `ODRADEK_TRACE` | set to 1, a mistake of ours ends with its traceback |
"""


def _takes(option: click.Option) -> list[str]:
    """What stands behind the name of an option; nothing behind a flag. (click's own words change with its versions.)"""
    if option.is_flag or option.count:
        return []
    kind = option.type
    if option.metavar:
        return [option.metavar]
    if isinstance(kind, click.Choice):
        return ["|".join(map(str, kind.choices))]
    words = kind.name.removesuffix(" range").upper()
    if isinstance(kind, click.IntRange | click.FloatRange):
        if kind.min is not None and kind.max is not None:
            return [f"{words} {kind.min} to {kind.max}"]
        if kind.min is not None:
            return [f"{words} {'>' if kind.min_open else '>='} {kind.min}"]
    return [words]


def _meaning(option: click.Option) -> str:
    """Its help, and whether it is required, may be repeated, or has a default."""
    words = [option.help or ""]
    if option.required:
        words.append("Required.")
    if option.multiple and "epeat" not in words[0]:
        words.append("Repeatable.")
    if option.show_default:
        default = option.show_default if isinstance(option.show_default, str) else option.default
        words.append(f"Default: `{default}`.")
    return " ".join(words)


def commands() -> str:
    page = HEAD + COMMANDS

    def describe(command: click.Command, path: str, parent: click.Context | None) -> None:
        nonlocal page
        context = click.Context(command, info_name=path.split()[-1], parent=parent)
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None, f"{path} lists {name} and does not have it"
                describe(inner, f"{path} {name}", context)
            return
        page += f"\n## `{path}`\n\n{cleandoc(command.help or '')}\n\n"
        rows: list[list[object]] = []
        for parameter in command.get_params(context):
            if isinstance(parameter, click.Argument):
                rows.append([f"`{parameter.human_readable_name}`", "argument"])
            elif (
                isinstance(parameter, click.Option)
                and not parameter.hidden
                and "--help" not in parameter.opts
            ):
                names = ", ".join([*parameter.opts, *parameter.secondary_opts])
                rows.append([f"`{' '.join([names, *_takes(parameter)])}`", _meaning(parameter)])
        if rows:
            page += _table(["", "what it means"], rows)

    describe(odradek, "odradek", None)
    return page


def state_machines() -> str:
    page = HEAD + "# State machines of the controller\n"
    for title, table in (
        ("Partition", partition_states.TRANSITIONS),
        ("Replica", replica_states.TRANSITIONS),
    ):
        page += f"\n## {title}\n\n```mermaid\nstateDiagram-v2\n"
        rows: list[list[object]] = []
        for source, targets in table.items():
            for target, effect in targets.items():
                page += f"    {source.value} --> {target.value}: {effect.__name__}\n"
                words = (effect.__doc__ or "").strip().split("\n\n")[0]
                rows.append([source.value, target.value, effect.__name__, " ".join(words.split())])
        page += "```\n\n" + _table(["from", "to", "effect", "what it does"], rows)
    return page


def metrics() -> str:
    return (
        HEAD
        + "# Metrics\n\nOf each broker, where `odradek.metrics.listener` is set ([how to use them](../metrics.md)).\n\n"
        + _table(
            ["name", "kind", "labels", "what it says", "whose name"],
            [
                [
                    f"`{family.name}`",
                    family.kind,
                    ", ".join(family.labels),
                    family.text,
                    f"`{family.source}`" if ":" in family.source else family.source,
                ]
                for family in families()
            ],
        )
    )


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings,
    "api-keys.md": api_keys,
    "commands.md": commands,
    "state-machines.md": state_machines,
    "metrics.md": metrics,
}

if __name__ == "__main__":
    for module, source in flattening.files():
        (FLAT / f"{module}.py").write_text(source, encoding="utf-8")
    print("wrote src/odradek/protocol/flat")
    REFERENCE.mkdir(exist_ok=True)
    for page_name, render in PAGES.items():
        (REFERENCE / page_name).write_text(render(), encoding="utf-8")
        print(f"wrote docs/reference/{page_name}")
