"""`topic alter` and `topic delete`: against brokers in this process."""

import pytest

from tests.cli.conftest import Shell


def test_alter_adds_partitions_and_changes_settings(shell: Shell) -> None:
    shell.ok("topic", "create", "grows", "-p", 1, "-r", 2)
    out = shell.ok(
        "topic", "alter", "grows", "-p", 3, "-c", "retention.ms=1000", "-c", "min.insync.replicas=2"
    )
    assert out == "grows: 1 -> 3 partitions, retention.ms=1000, min.insync.replicas=2\n"
    (topic,) = shell.json("topic", "describe", "grows")
    assert len(topic["partitions"]) == 3
    assert topic["config"] == {"min.insync.replicas": "2", "retention.ms": "1000"}
    assert shell.ok("topic", "alter", "grows", "-d", "retention.ms") == "grows: retention.ms deleted\n"
    assert shell.json("topic", "describe", "grows")[0]["config"] == {"min.insync.replicas": "2"}


def test_new_partitions_can_be_placed_by_hand(shell: Shell) -> None:
    shell.ok("topic", "create", "placed", "--assign", "1,2")
    shell.ok("topic", "alter", "placed", "-p", 2, "--assign", "4,3")
    (topic,) = shell.json("topic", "describe", "placed")
    assert topic["partitions"][1]["replicas"] == [4, 3]


def test_a_dry_run_changes_nothing(shell: Shell) -> None:
    shell.ok("topic", "create", "dry", "-p", 1)
    out = shell.ok("topic", "alter", "dry", "-p", 5, "-c", "retention.ms=7", "--dry-run")
    assert out.endswith("would be accepted\n")
    (topic,) = shell.json("topic", "describe", "dry")
    assert (len(topic["partitions"]), topic["config"]) == (1, {})


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fixed", "-p", 1], 1, "2 partitions"),
        (["fixed", "-c", "retention.mss=1"], 2, "did you mean retention.ms?"),
        (["fixed", "-c", "retention.ms=soon"], 1, "nothing was changed"),
        (
            ["fixed", "-c", "retention.ms=1", "-d", "retention.ms"],
            2,
            "retention.ms is both set by --config and",
        ),
        (["fixed"], 2, "say --partitions, --config or --delete-config"),
        (["fixed", "--assign", "1"], 2, "say with --partitions"),
        (["fixd", "-p", 3], 1, "did you mean fixed?"),
    ],
)
def test_alter_refuses_in_one_sentence(shell: Shell, arguments: list[object], code: int, words: str) -> None:
    shell("topic", "create", "fixed", "-p", 2, "--if-not-exists")
    found, out, err = shell("topic", "alter", *arguments)
    assert (found, out) == (code, "")
    assert words in err and err.count("\n") == 1


def test_delete_says_what_would_go_and_does_it_only_when_told(shell: Shell) -> None:
    shell.ok("topic", "create", "old", "-p", 2)
    code, out, _ = shell("topic", "delete", "old")
    assert code == 1
    assert out.startswith("Nothing is deleted yet; --yes deletes, for good:")
    assert "old" in {topic["topic"] for topic in shell.json("topic", "list")}
    (quote,) = shell.json("topic", "delete", "old")["results"]
    assert (quote["done"], quote["error"]) == (False, None)
    report = shell.json("topic", "delete", "old", "--yes")
    about = {"partitions": 2, "records": 0, "absent_brokers": []}
    assert report == {
        "ok": True,
        "results": [{"target": "old", "done": True, "error": None, **about}],
    }
    assert "old" not in {topic["topic"] for topic in shell.json("topic", "list")}
    code, _, err = shell("topic", "delete", "old", "--yes")
    assert code == 1 and err.startswith("odradek: there is no topic old")
    assert shell("topic", "delete", "old", "--yes", "--if-exists")[0] == 0
