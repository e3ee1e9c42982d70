"""Settings as they are typed: NAME=VALUE, each name once."""

import click


def named_values(pairs: tuple[str, ...], option: str, example: str) -> dict[str, str]:
    """UsageError for what is no pair, and for a name that is given two values: neither is known to be meant.

    `option` stands before the pair in the sentence, as in `--config `; nothing for an argument.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{option}{pair}: expected NAME=VALUE, as in {example}")
        if values.get(name, value) != value:
            raise click.UsageError(
                f"{name} is given twice, as {values[name]} and as {value}; say one of them"
            )
        values[name] = value
    return values
