"""`odradek`: the group of verbs. A verb's module is imported when that verb is called, and not before.

`odradek --help` lists the verbs from the table below and imports click alone, so that it answers within
100 ms. An error is one sentence on standard error with what would have worked; exit code 1 when the world
or the answer was wrong, 2 when the question was. `ODRADEK_TRACE=1` shows the trace to those who debug.
"""

import importlib
import os
import sys
from collections.abc import Mapping

import click

# verb -> (module, attribute, what the list of verbs says)
VERBS: Mapping[str, tuple[str, str, str]] = {
    "up": ("odradek.cli.up", "up", "A development cluster in this terminal."),
    "start": ("odradek.cli.start", "start", "One broker, from a properties file."),
    "demo": (
        "odradek.cli.demo",
        "demo",
        "Files to a topic to a table, a leader killed on the way, and proof.",
    ),
    "topic": ("odradek.cli.topic", "topic", "Create, alter, delete, list topics; produce and consume."),
    "cluster": ("odradek.cli.cluster", "cluster", "Is everything replicated, and who leads?"),
    "config": ("odradek.cli.config", "config", "Settings of topics, brokers and the whole cluster."),
    "reassign": ("odradek.cli.reassign", "reassign", "Move partitions: plan, apply, status, cancel."),
    "elect": ("odradek.cli.elect", "elect", "Elect leaders by hand, preferred or unclean."),
    "why": ("odradek.cli.why", "why", "Why is it offline, under-replicated, stuck or slow?"),
    "what-if": ("odradek.cli.what_if", "what_if", "What the controller would do if that happened."),
    "shutdown-quote": (
        "odradek.cli.shutdown_quote",
        "shutdown_quote",
        "What stopping a broker would cost, beforehand.",
    ),
    "journal": ("odradek.cli.journal", "journal", "Show, replay and compare the controller's journal."),
    "roll": ("odradek.cli.roll", "roll", "Restart brokers without an outage: order and certificate."),
    "sim": ("odradek.cli.sim", "sim", "A whole simulated cluster, with faults, from one seed."),
    "store": ("odradek.cli.store", "store", "Read the metadata store."),
    "log": ("odradek.cli.log_verbs", "log", "Read segment files; see log directories."),
    "wire": ("odradek.cli.wire", "wire", "Decode and encode protocol messages."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only to run it."""

    def __init__(self, *args: object, verbs: Mapping[str, tuple[str, str, str]], **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.verbs.get(cmd_name)
        if entry is None:
            return None
        module, attribute, _ = entry
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, words) for name, (_, _, words) in self.verbs.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.verbs and not args[0].startswith("-"):
            from odradek.model.settings import nearest

            guess = nearest(args[0], self.verbs)
            hint = f"did you mean {guess}?" if guess else f"there are {', '.join(self.verbs)}."
            raise click.UsageError(f"no verb {args[0]}; {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, verbs=VERBS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="odradek", message="%(version)s")
def odradek() -> None:
    """A Kafka-compatible replicated log whose controller can be understood."""


def main(arguments: list[str] | None = None) -> int:
    """Entry point of the command. Returns the exit code."""
    if sys.stdout is None:  # started with `>&-`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (as long as the process lives)
    try:
        return odradek.main(args=arguments, prog_name="odradek", standalone_mode=False) or 0
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.Abort:
        return 130
    except click.ClickException as error:
        return _say(error.format_message(), error.exit_code)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # the last resort of a command line: whatever it is, a sentence and no trace
        if os.environ.get("ODRADEK_TRACE"):
            raise
        return _say(_sentence(error), _code(error))


def _code(error: BaseException) -> int:
    """A setting, an address or a file of settings that cannot be right is a wrong question."""
    from odradek.model.errors import ConfigurationError

    return 2 if isinstance(error, ConfigurationError) else 1


def _sentence(error: BaseException) -> str:
    from odradek.model.errors import OdradekError

    if isinstance(error, OdradekError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return f"{type(error).__name__}: {error} (a mistake of ours; ODRADEK_TRACE=1 shows where)"


def _say(sentence: str, code: int) -> int:
    print(f"odradek: {sentence}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
