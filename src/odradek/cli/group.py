"""Groups of verbs, as click sees them. A verb's module is imported when that verb is called, and not before."""

import importlib
from collections.abc import Mapping

import click

from odradek import __version__
from odradek.cli.interrupts import unwind
from odradek.cli.verbs import ABOUT, ALIASES, VERBS, Verbs

# Above any first sentence, which click would cut in its middle; the list of verbs wraps what a line has no room for.
MOST_CHARACTERS = 1_000


class VerbGroup(click.Group):
    """A group whose help lists verbs, and which guesses what a mistyped one was to be."""

    aliases: Mapping[str, str] = {}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(MOST_CHARACTERS))
                    for name, command in self.commands.items()
                ]
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        verbs = self.list_commands(ctx)
        if args and self.aliases.get(args[0], args[0]) not in verbs and not args[0].startswith("-"):
            from odradek.model.settings import nearest

            guess = nearest(args[0], dict.fromkeys(verbs))
            hint = f"did you mean {guess}?" if guess else f"there are {', '.join(verbs)}."
            raise click.UsageError(f"no verb {args[0]}; {hint}", ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(VerbGroup):
    """A group that knows its commands by name and imports one only to run it."""

    def __init__(
        self, *args: object, verbs: Verbs, aliases: Mapping[str, str] | None = None, **options: object
    ) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.verbs = verbs
        self.aliases = aliases or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.verbs.get(self.aliases.get(cmd_name, cmd_name))
        if entry is None:
            return None
        module, attribute, _ = entry
        command: click.Command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, LazyGroup):
            unwind()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, words) for name, (_, _, words) in self.verbs.items()])


@click.group(
    cls=LazyGroup,
    verbs=VERBS,
    aliases=ALIASES,
    help=ABOUT,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="%(version)s")
def odradek() -> None:
    """See `odradek.cli.verbs`."""
