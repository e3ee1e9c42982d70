"""`config`: at a topic, at a broker, at all brokers; one setting changes, the others stay."""

import pytest

from tests.cli.conftest import Shell


@pytest.fixture(scope="module")
def topic(shell: Shell) -> str:
    shell.ok("topic", "create", "configured", "-p", 1)
    return "configured"


def test_a_topic_setting_is_set_seen_and_taken_away(shell: Shell, topic: str) -> None:
    assert "has no settings of its own; --all shows the defaults" in shell.ok(
        "config", "describe", "-t", topic
    )
    shell.ok("config", "set", "--topic", topic, "retention.ms=5", "min.insync.replicas=2")
    shell.ok("config", "set", "--topic", topic, "retention.ms=6")
    found = shell.json("config", "describe", "--topic", topic)["settings"]
    assert {s["name"]: (s["value"], s["source"]) for s in found} == {
        "min.insync.replicas": ("2", "topic"),
        "retention.ms": ("6", "topic"),
    }
    assert shell.ok("config", "get", "retention.ms", "--topic", topic) == "6\n"
    shell.ok("config", "delete", "--topic", topic, "retention.ms", "min.insync.replicas")
    assert shell.json("config", "describe", "--topic", topic)["settings"] == []
    everything = shell.json("config", "describe", "--topic", topic, "--all")["settings"]
    assert {s["name"]: s["source"] for s in everything}["retention.ms"] == "default"


def test_what_is_not_set_cannot_be_deleted_and_that_is_said(shell: Shell, topic: str) -> None:
    """Brokers answer the same for both (Apache's too): the level above applies, as it did before."""
    assert shell.ok("config", "delete", "retention.ms", "--topic", topic) == (
        f"topic {topic}: retention.ms was not set\n"
    )
    assert shell.ok("topic", "alter", topic, "-d", "retention.ms") == f"{topic}: retention.ms was not set\n"
    for where, of in (("--cluster",), "all brokers"), (("--broker", 2), "broker 2"):
        shell.ok("config", "set", "log.cleaner.threads=2", *where)
        names = ("log.cleaner.threads", "message.max.bytes")
        assert shell.ok("config", "delete", *names, *where) == (
            f"{of}: log.cleaner.threads deleted, message.max.bytes was not set\n"
        )
        assert shell.json("config", "delete", *names, *where)["not_set"] == list(names)


def test_of_all_brokers_only_what_was_set_for_them_is_known(shell: Shell) -> None:
    """`--all` adds nothing there: which value counts otherwise, each broker's file says."""
    for arguments in ((), ("--all",)):
        assert shell.ok("config", "describe", "--cluster", *arguments) == (
            "nothing is set for all brokers; --broker ID shows the settings of one\n"
        )


def test_the_level_that_counts_is_named(shell: Shell) -> None:
    """Broker before cluster default before server.properties (KIP-226)."""
    name = "log.cleaner.threads"
    shell.ok("config", "set", "--cluster", f"{name}=2")
    shell.ok("config", "set", "--broker", 2, f"{name}=3")
    by_broker = {b: shell.json("config", "get", name, "--broker", b) for b in (1, 2)}
    assert {b: (found["value"], found["source"]) for b, found in by_broker.items()} == {
        1: ("2", "cluster default"),
        2: ("3", "broker"),
    }
    assert shell.ok("config", "get", name, "--cluster") == "2\n"
    assert "cluster default" in shell.ok("config", "describe", "--cluster")
    shell.ok("config", "delete", "--broker", 2, name)
    shell.ok("config", "delete", "--cluster", name)
    assert shell.json("config", "get", name, "--broker", 2)["source"] == "default"


def test_the_list_of_what_there_is_comes_as_the_remedy_is_typed(shell: Shell, topic: str) -> None:
    for where in (("--topic", topic), ("--broker", 2)):
        code, out, err = shell("config", "get", "frobnication", *where)
        assert (code, out) == (1, "") and "has no frobnication; odradek config describe " in err
        named = err.split("; odradek ")[1].split(" lists ")[0].split()
        assert "min.insync.replicas" in shell.ok(*named)


def test_what_is_not_set_for_all_brokers_is_not_said_to_be_unknown(shell: Shell) -> None:
    assert shell("config", "get", "log.segment.bytes", "--cluster") == (
        1,
        "",
        "odradek: log.segment.bytes is not set for all brokers; "
        "odradek config get log.segment.bytes --broker ID shows what counts at one\n",
    )


def test_a_secret_is_not_an_empty_value(shell: Shell) -> None:
    """To whoever writes `$(odradek config get ...)` the two would be one."""
    code, out, err = shell("config", "get", "ssl.keystore.password", "--broker", 2)
    assert (code, out) == (1, "")
    assert err == "odradek: ssl.keystore.password of broker 2 is a secret; brokers do not tell it\n"


def test_a_dry_run_is_judged_and_not_done(shell: Shell, topic: str) -> None:
    out = shell.ok("config", "set", "--topic", topic, "retention.ms=99", "--dry-run")
    assert out == "topic configured: retention.ms=99 would be accepted\n"
    out = shell.ok("config", "delete", "--topic", topic, "retention.ms", "--dry-run")
    assert out == "topic configured: retention.ms deleted would be accepted\n"
    assert shell.json("config", "get", "retention.ms", "--topic", topic)["source"] == "default"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["describe"], 2, "say one of --topic name, --broker id, --cluster"),
        (["describe", "--topic", "x", "--cluster"], 2, "say one of"),
        (["describe", "--topic", "configurd"], 1, "did you mean configured?"),
        (["describe", "--broker", "9"], 1, "brokers alive: 1, 2, 3, 4"),
        (["get", "retention.mss", "--topic", "configured"], 2, "did you mean retention.ms?"),
        (["set", "retention.ms", "--topic", "configured"], 2, "expected name=value"),
        (["set", "retention.ms=soon", "--topic", "configured"], 1, "nothing was changed"),
        (["set", "broker.id=7", "--broker", "1"], 1, "broker.id"),
        (["describe", "--topic", "x" * 40_000], 2, "40000 bytes, the wire allows 32767"),
        (["set", f"cleanup.policy={'x' * 40_000}", "--topic", "configured"], 2, "the wire allows 32767"),
    ],
)
def test_a_mistake_is_one_sentence(
    shell: Shell, topic: str, arguments: list[str], code: int, words: str
) -> None:
    found, out, err = shell("config", *arguments)
    assert (found, out) == (code, "")
    assert words in err.lower() and err.count("\n") == 1
