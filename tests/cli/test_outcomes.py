"""`--json` of the verbs that do something has one shape, whether it was done, was done before, or was refused."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Shell


@pytest.mark.parametrize(
    ("arguments", "code", "done", "error"),
    [
        (["topic", "create", "shape", "-p", 1, "--if-not-exists"], 0, None, None),
        (["topic", "create", "shape", "-p", 1], 1, False, "--if-not-exists accepts it"),
        (["topic", "create", "wide", "-r", 9], 1, False, "9"),
        (["elect", "preferred", "shape"], 0, False, None),
        (["elect", "unclean", "shape"], 0, False, None),
        (["topic", "delete", "shape"], 1, False, None),
        (["topic", "delete", "shape", "--yes"], 0, True, None),
        (["topic", "delete", "shape", "--yes", "--if-exists"], 0, None, None),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_done_undone_and_refused_have_one_shape(
    shell: Shell, arguments: list[object], code: int, done: bool | None, error: str | None
) -> None:
    if arguments[-1] != "--if-exists":
        shell.ok("topic", "create", "shape", "-p", 1, "--if-not-exists")
    assert shell(*arguments, "--json")[0] == code
    if code == 0 and done:  # it can be done once only
        shell.ok("topic", "create", "shape", "-p", 1)
    found: dict[str, Any] = shell.json(*arguments)
    assert set(found) == {"ok", "results"} and found["ok"] is (code == 0)
    for result in found["results"]:
        assert {"target", "done", "error"} <= set(result)
        assert done is None or result["done"] is done
        assert (result["error"] is None) == (error is None)
        assert error is None or error in result["error"]


def test_a_deletion_that_is_refused_is_a_sentence_and_a_result(start_cluster: Callable[..., Any]) -> None:
    _, shell = start_cluster(1, settings={"delete.topic.enable": "false"})
    shell.ok("topic", "create", "kept", "-p", 1)
    code, out, err = shell("topic", "delete", "kept", "--yes")
    assert (code, out) == (1, "") and err.startswith("odradek: kept: ") and err.count("\n") == 1
    found = shell.json("topic", "delete", "kept", "--yes")
    assert found["ok"] is False
    (result,) = found["results"]
    assert (result["target"], result["done"]) == ("kept", False)
    assert f"odradek: kept: {result['error']}\n" == err
