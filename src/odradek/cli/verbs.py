"""The verbs of `odradek`, and the page that lists them; both without click, which takes longer to import than to list."""

from collections.abc import Iterable, Mapping

# verb -> (module, attribute, what the list of verbs says)
Verbs = Mapping[str, tuple[str, str, str]]

VERBS: Verbs = {
    "up": ("odradek.cli.up", "up", "A development cluster in this terminal."),
    "start": ("odradek.cli.start", "start", "One broker, from a properties file."),
    "demo": (
        "odradek.cli.demo",
        "demo",
        "Files to a topic to a table, a leader killed on the way, and proof.",
    ),
    "test-cluster": (
        "odradek.cli.test_cluster",
        "test_cluster",
        "A cluster in one process, for tests in any language.",
    ),
    "topic": ("odradek.cli.topic", "topic", "Create, alter, delete, list topics; produce and consume."),
    "group": ("odradek.cli.groups", "group", "Consumer groups: members, lag, offsets."),
    "txn": ("odradek.cli.transactions", "txn", "Transactions: list, describe, find and end those that hang."),
    "cluster": ("odradek.cli.cluster", "cluster", "Is everything replicated, and who leads?"),
    "config": ("odradek.cli.config", "config", "Settings of topics, brokers and the whole cluster."),
    "reassign": ("odradek.cli.reassign", "reassign", "Move partitions: plan, apply, status, cancel."),
    "elect": ("odradek.cli.elect", "elect", "Elect leaders by hand, preferred or unclean."),
    "why": ("odradek.cli.why", "why", "Why is it offline, under-replicated, stuck or slow?"),
    "what-if": ("odradek.cli.what_if", "what_if", "What the controller would do if that happened."),
    "shutdown-impact": (
        "odradek.cli.shutdown_impact",
        "shutdown_impact",
        "What stopping a broker would cost, beforehand.",
    ),
    "journal": ("odradek.cli.journal", "journal", "Show, replay and compare the controller's journal."),
    "roll": ("odradek.cli.roll", "roll", "Restart brokers without an outage: order and certificate."),
    "sim": ("odradek.cli.sim", "sim", "A whole simulated cluster, with faults, from one seed."),
    "store": ("odradek.cli.store", "store", "Read, mend and move the metadata store."),
    "log": ("odradek.cli.log_verbs", "log", "Read segment files; see log directories."),
    "spark": ("odradek.cli.spark", "spark", "Topics become tables, exactly once, and proof of it."),
    "wire": ("odradek.cli.wire", "wire", "Decode and encode protocol messages."),
}

# Former names, which scripts may hold. They are not listed.
ALIASES: Mapping[str, str] = {"shutdown-quote": "shutdown-impact"}

ABOUT = "A Kafka-compatible replicated log whose controller can be understood."
OPTIONS = (("--version", "Show the version and exit."), ("-h, --help", "Show this message and exit."))
LEAST_ROOM = 10  # of the words beside a name, however narrow the terminal


def help_page(columns: int) -> str:
    """What `odradek --help` prints in a terminal of so many columns; click would lay it out the same."""
    verbs = [(name, words) for name, (_, _, words) in VERBS.items()]
    width = min(columns, 80) - 2
    return "\n".join(
        (
            *_wrapped("[OPTIONS] COMMAND [ARGS]...", width, "Usage: odradek ", " " * 15),
            "",
            *_wrapped(ABOUT, width, "  ", "  "),
            "",
            "Options:",
            *_definitions(OPTIONS, width),
            "",
            "Verbs:",
            *_definitions(verbs, width),
        )
    )


def _definitions(rows: Iterable[tuple[str, str]], width: int) -> Iterable[str]:
    rows = list(rows)
    first = min(max(len(name) for name, _ in rows), 30) + 2
    for name, words in rows:
        yield from _wrapped(words, width, f"  {name.ljust(first)}", " " * (first + 2))


def _wrapped(words: str, width: int, first: str, others: str) -> Iterable[str]:
    line, room = first, max(width, len(others) + LEAST_ROOM)
    is_empty = True
    for word in words.split():
        if not is_empty and len(line) + 1 + len(word) > room:
            yield line
            line, is_empty = others, True
        line += word if is_empty else f" {word}"
        is_empty = False
    yield line
