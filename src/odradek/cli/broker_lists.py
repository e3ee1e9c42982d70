"""Lists of brokers as people write them: `1,2` or the option twice; checked against those alive."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from odradek.cli.output import fail

if TYPE_CHECKING:
    from odradek.controller.context import ControllerContext
    from odradek.model.ids import BrokerId


def broker_ids(texts: Iterable[str], option: str) -> "list[BrokerId]":
    """Sorted, each once."""
    from odradek.model.ids import BrokerId

    given = list(texts)
    try:
        return sorted({BrokerId(_id(part)) for text in given for part in text.split(",")})
    except ValueError:
        raise click.UsageError(
            f"{option} {' '.join(given)}: expected broker ids, as in {option} 3 or {option} 1,2"
        ) from None


def live_brokers(
    context: "ControllerContext", texts: Iterable[str], option: str, verb: str
) -> "list[BrokerId]":
    brokers = broker_ids(texts, option)
    for broker in brokers:
        if broker not in context.brokers:
            alive = ", ".join(map(str, sorted(context.brokers))) or "none"
            fail(f"broker {broker} is not alive, so it cannot {verb}; brokers alive: {alive}")
    return brokers


def replica_list(text: str, about: str) -> "tuple[BrokerId, ...]":
    """`3,1,2` in that order: the preferred leader first."""
    from odradek.model.ids import BrokerId

    try:
        return tuple(BrokerId(_id(part)) for part in text.split(","))
    except ValueError:
        raise click.UsageError(f"{about}: expected broker ids separated by commas, as in 1,2,3") from None


def _id(text: str) -> int:
    from odradek.model.ids import number_in

    number = number_in(text.strip())
    if number is None:
        raise ValueError(text)
    return number
