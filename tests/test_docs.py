"""The documents say what the code says, and every link in them leads somewhere."""

import importlib
import importlib.util
import itertools
import json
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import click
import pytest

from odradek import __version__
from odradek.advisor.reassignment_steps import STEPS
from odradek.broker.handlers.table import HANDLERS
from odradek.cli.group import odradek
from odradek.model.properties import parse_properties
from odradek.model.settings import BROKER_SETTINGS
from odradek.protocol.api_keys import APIS, FIRST_PRODUCE_VERSION, SERVED, ApiKey
from odradek.server.exporter.page import families
from odradek.sim import scenario
from odradek.sim.plan import CLASSES, TABLES
from odradek.spark import options, topic_options
from tests.coordinator.traces import traces
from tests.mutants.table import EXHIBITS
from tests.mutants.table.searched import SEARCHED
from tests.mutants.table.shown_by_tests import SHOWN_BY_TESTS
from tests.mutants.table.shown_by_worlds import SHOWN_BY_WORLDS
from tests.mutants.table.transactions import SEARCHED_TRANSACTIONS
from tests.sim.test_explore import LENGTHS, SEEN_NOWHERE_ELSE
from tests.sim.test_narrow_turns import LIMITS
from tests.sim.test_seeds import ELSEWHERE, SEEDS
from tests.support import GOLDEN, each

ROOT = Path(__file__).parent.parent


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_reference_page_is_what_the_code_says() -> None:
    folder = ROOT / "docs" / "reference"
    pages = generator().PAGES
    stale = [name for name, page in pages.items() if (folder / name).read_text(encoding="utf-8") != page()]

    assert {path.name for path in folder.iterdir()} == set(pages)
    assert stale == [], "run: python docs/generate.py"


def documents() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


@each(documents(), str)
def test_every_link_to_a_file_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (path.parent / link).exists()]

    assert missing == []


def anchors(page: str) -> set[str]:
    """Of its headings, as GitHub makes them; what stands in a block of code is none."""
    headings = re.findall(r"^#+ (.+)", re.sub(r"^```.*?^```", "", page, flags=re.M | re.S), re.M)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.strip()).replace(" ", "-") for heading in plain}


def anchors_missing(path: Path, text: str) -> list[str]:
    """The links of `path`, which says `text`, to a heading that its page does not have."""
    links = re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", text)
    pages = {file: (path.parent / file).read_text(encoding="utf-8") if file else text for file, _ in links}
    return [f"{file}#{anchor}" for file, anchor in links if anchor not in anchors(pages[file])]


def test_every_link_to_a_heading_leads_to_one() -> None:
    found = {str(p.relative_to(ROOT)): anchors_missing(p, p.read_text(encoding="utf-8")) for p in documents()}
    assert {page: links for page, links in found.items() if links} == {}


def test_a_link_to_a_heading_that_is_not_there_is_seen() -> None:
    text = "# A `b`, c\n```\n# no heading\n```\n[x](#a-b-c) [x](#no-heading) [x](README.md#honest-limits) [x](README.md#none)"
    assert anchors_missing(ROOT / "a.md", text) == ["#no-heading", "README.md#none"]


def test_every_decision_is_numbered_once() -> None:
    numbers = [p.name[:4] for p in sorted((ROOT / "docs" / "decisions").glob("*.md"))]

    assert numbers == [f"{n:04d}" for n in range(1, len(numbers) + 1)]


def test_the_last_release_has_its_entry_and_each_later_change_is_one_paragraph() -> None:
    """Git keeps no empty folder: right after a release there may be no `changelog.d`."""
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    entries = re.findall(r"^## (.*)", changes, re.MULTILINE)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    fragments = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "changelog.d").glob("*")}
    (released, *_) = re.findall(r"Fragments up to (\d{4}) are in", changes)

    assert entries[0] == version == __version__
    assert [name for name in fragments if not re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", name)] == []
    assert [name for name, text in fragments.items() if not re.fullmatch(r"(\S.*\n)+", text)] == []
    assert [name for name in sorted(fragments) if name[:4] <= released] == []


NOT_HERE = re.compile(
    r"""(?<![\w/.])(?:\.\./)?(?:shared/|spec/|design/|found/|(?<!tests/)golden/)\w   # folders of working papers
    |\bhouse\.md\b|\bstyle\.md\b|\breading-\d\.md\b
    |(?<![\w.])/work/""",
    re.VERBOSE,
)


COMMAND = re.compile(r"`odradek ([a-z][^`]*)`|^\s*(?:\$ )?odradek ([a-z][^\n#`]*)", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")


def commands() -> Iterator[tuple[Path, list[str]]]:
    """Every `odradek ...` of a page, as words; `a|b` among the first three words are two commands."""
    for path in [*documents(), *sorted((ROOT / "changelog.d").glob("*.md"))]:
        for found in COMMAND.finditer(path.read_text(encoding="utf-8")):
            words = [word.replace("\\|", "|") for word in (found[1] or found[2]).split()]
            for verb in itertools.product(*(word.split("|") for word in words[:3])):
                yield path, [*verb, *words[3:]]


def why_not_understood(words: list[str]) -> str | None:
    """A verb or an option that the command line does not have. Values are not looked at."""
    command: click.Command = odradek
    left = list(words)
    while isinstance(command, click.Group) and left and not left[0].startswith("-"):
        inner = command.get_command(click.Context(command), left[0])
        if inner is None:
            return f"no verb {left[0]}"
        command = inner
        left.pop(0)
    known = {"--help", *(o for p in command.params for o in (*p.opts, *p.secondary_opts))}
    asked = [option for word in left for option in OPTION.findall(word) if word.lstrip("[(").startswith("-")]
    unknown = [option for option in asked if option not in known]
    return f"no option {unknown[0]}" if unknown else None


def test_every_command_that_a_page_names_is_understood() -> None:
    found = list(commands())
    assert len(found) > 150
    wrong = [
        f"{path.relative_to(ROOT)}: odradek {' '.join(words)}: {why}"
        for path, words in found
        if (why := why_not_understood(words)) is not None
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("topics list", "no verb topics"),
        ("topic lst", "no verb lst"),
        ("sim --sed 42", "no option --sed"),
        ("topic produce orders -K ' ' -Q", "no option -Q"),
        ("sim --seed 42 [--only 1]", None),
        ("shutdown-quote --broker 1", None),  # a former name
    ],
)
def test_a_command_that_is_not_understood_is_seen(words: str, why: str | None) -> None:
    assert why_not_understood(words.split()) == why


# A file by the end of its path; a program; a target of make.
FILE = re.compile(r"`([\w.-]+(?:/[\w.-]+)*\.(?:py|md|txt|jsonl))(?:::\w+)?`")
PROGRAM = re.compile(r"python -m ((?:odradek|tests|benchmarks)(?:\.\w+)*)")
TARGET = re.compile(r"(?:(?<=`)|^)make ([a-z-]+)(?= {2}| [A-Z]|`|$)", re.MULTILINE)
MADE_BY_A_READER = frozenset({"read.py"})


@cache
def ends_of_paths() -> frozenset[str]:
    """Of every file here: `a/b/c.py`, `b/c.py` and `c.py`."""
    folders = ("benchmarks", "changelog.d", "docs", "examples", "src", "tests")
    files = [*ROOT.iterdir(), *(path for folder in folders for path in (ROOT / folder).rglob("*.*"))]
    parts = [path.relative_to(ROOT).parts for path in files]
    return frozenset("/".join(names[n:]) for names in parts for n in range(len(names)))


@cache
def is_program(name: str) -> bool:
    path = name.replace(".", "/")
    return {f"{path}.py", f"{path}/__main__.py"} & ends_of_paths() != set()


TABLE = re.compile(r"^\|.*\n\|[-|: ]+\n(?:\|.*\n?)+", re.MULTILINE)


def rows_of_another_width(text: str) -> list[str]:
    """Of a table: rows with more or fewer cells than its head, which a renderer cuts or leaves empty."""
    tables = [
        table.splitlines() for table in TABLE.findall(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    ]
    cells = re.compile(r"(?<!\\)\|")
    return [
        row
        for head, _, *rows in tables
        for row in rows
        if len(cells.findall(row)) != len(cells.findall(head))
    ]


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    found = {
        str(p.relative_to(ROOT)): rows_of_another_width(p.read_text(encoding="utf-8")) for p in documents()
    }
    assert {page: rows for page, rows in found.items() if rows} == {}


def test_a_row_with_a_bar_of_its_own_is_seen() -> None:
    text = "| a | b |\n|---|---|\n| `x\\|y` | 1 |\n| `x|y` | 1 |\n| z |\n"
    assert rows_of_another_width(text) == ["| `x|y` | 1 |", "| z |"]


def targets() -> frozenset[str]:
    return frozenset(
        re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )


def not_there(text: str) -> list[str]:
    """Files, programs and targets of make that a text names and that are not there."""
    files = set(FILE.findall(text)) - ends_of_paths() - MADE_BY_A_READER
    programs = [f"python -m {name}" for name in PROGRAM.findall(text) if not is_program(name)]
    unmade = [f"make {name}" for name in TARGET.findall(text) if name not in targets()]
    return [*sorted(files), *programs, *unmade]


def test_every_file_program_and_target_that_a_page_names_is_there() -> None:
    pages = {str(path.relative_to(ROOT)): not_there(path.read_text(encoding="utf-8")) for path in documents()}
    assert {page: names for page, names in pages.items() if names} == {}


def test_what_is_not_there_is_seen() -> None:
    text = "`log/namesakes.py`, `tests/test_docs.py`, `python -m odradek.simm`, `make sim`\n\nmake test-all"
    assert not_there(text) == ["log/namesakes.py", "python -m odradek.simm", "make test-all"]


def test_every_page_that_the_code_names_is_there() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {page}"
        for path in (ROOT / "src").rglob("*.py")
        for page in re.findall(r"\bdocs/[\w/-]+\.\w+", path.read_text(encoding="utf-8"))
        if not (ROOT / page).exists()
    }
    assert found == set()


def test_the_makefile_lists_its_targets() -> None:
    """In its head, each but the parts of `make sim`."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.findall(r"^\.PHONY: (.*)", text, re.MULTILINE)[0].split()

    assert set(phony) == set(targets())
    assert set(re.findall(r"^# make ([a-z-]+)", text, re.MULTILINE)) == set(phony) - {
        "sim-seeds",
        "sim-states",
    }


def texts() -> list[Path]:
    folders = ("benchmarks", "changelog.d", "docs", "examples", "src", "tests")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    endings = {".py", ".md", ".txt", ".toml"}
    return [path for path in [*ROOT.iterdir(), *found] if path.suffix in endings and path != Path(__file__)]


def test_nothing_is_named_that_a_reader_cannot_open() -> None:
    """A rule stands in words, with a number of a public document behind it, or a file of this repository."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if NOT_HERE.search(line)
    ]

    assert found == []


@pytest.mark.parametrize(("sign", "numbers"), [("C", range(1, 25)), ("H", range(1, 7))])
def test_each_sign_of_the_sources_has_its_row(sign: str, numbers: range) -> None:
    page = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")

    assert re.findall(rf"^\| {sign}(\d+) \|", page, re.MULTILINE) == [str(number) for number in numbers]


@each(sorted(SERVED))
def test_the_head_of_a_handler_has_a_line_for_each_version_that_is_served(key: int) -> None:
    """As `v3 throttle time.`: what this version changed. The first line names the range."""
    handler = HANDLERS[key]
    name = f"odradek.broker.handlers.{handler}" if isinstance(handler, str) else handler.__module__
    head = importlib.import_module(name).__doc__ or ""
    first, last = SERVED[key]
    versions = f"version {first}" if first == last else f"versions {first}-{last}"

    assert re.search(rf"\(key {key}\), {versions}\b", head) or key == ApiKey.PRODUCE, versions
    assert re.findall(r"^v(\d+) \S", head, re.MULTILINE) == [str(v) for v in range(first, last + 1)]


TEST = re.compile(r"`(?:([\w/]+\.py)::)?(test_\w+)`")
SCENARIO = re.compile(r"[Ss]cenarios? ((?:`\w+`(?:, | and )?)+)")


@cache
def names_of_tests(file: str) -> frozenset[str]:
    """The tests of one file, by its path from here or from `tests/`; of no file: all there are."""
    paths = [ROOT / file, ROOT / "tests" / file] if file else (ROOT / "tests").rglob("*.py")
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths if path.exists())
    return frozenset(re.findall(r"\bdef (test_\w+)\(", text))


def untested(text: str) -> list[str]:
    """Tests and scenarios that a text names and that are not there. A name that ends with `_` is the beginning of one."""
    names = [
        f"{file}::{name}" if file else name
        for file, name in TEST.findall(text)
        if not any(
            test == name or (name.endswith("_") and test.startswith(name)) for test in names_of_tests(file)
        )
    ]
    scenarios = [
        name for found in SCENARIO.findall(text) for name in re.findall(r"\w+", found) if name != "and"
    ]
    return [*names, *(name for name in scenarios if not (ROOT / "tests/scenarios" / f"{name}.txt").exists())]


def test_every_test_and_scenario_that_a_page_names_is_there() -> None:
    pages = {str(path.relative_to(ROOT)): untested(path.read_text(encoding="utf-8")) for path in documents()}
    assert {page: names for page, names in pages.items() if names} == {}


def test_a_test_that_is_not_there_is_seen() -> None:
    text = "`test_docs.py::test_a`, `tests/test_docs.py::test_a_test_`, `test_b`; scenarios `late_watches` and `nought`"
    assert untested(text) == ["test_docs.py::test_a", "test_b", "nought"]


def test_the_page_of_the_simulator_names_each_class_of_faults() -> None:
    text = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")
    (named,) = re.findall(r"the classes are those of `plan\.CLASSES`: ([a-z, ]+)\.", text)

    assert named.split(", ") == list(CLASSES)


def test_the_page_of_the_simulator_has_each_kind_of_fault_in_the_row_of_its_number() -> None:
    text = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8").partition("## Faults")[2]
    rows = {
        number: set(re.findall(r"`(\w+)`", row))
        for head, row in re.findall(r"^\| ((?:F\d+(?:, )?)+|-) \|(.*)", text, re.M)
        for number in head.split(", ")
    }
    drawn = {kind: number for table in TABLES for kind, (number, *_) in table.items()}

    assert set().union(*rows.values()) == set(drawn)
    assert {kind: number for kind, number in drawn.items() if kind not in rows.get(number, ())} == {}


def test_the_traces_a_page_names_are_played() -> None:
    text = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b((?:classic|consumer|limits|transactions)-[\d.]+)/([a-z-]+[a-z0-9-]*)", text))

    assert named
    assert [f"{folder}/{name}" for folder, name in sorted(named) if name not in traces(folder)] == []


def rows_of_clients() -> dict[str, list[str]]:
    """The versions that stand beside each client of the first table."""
    table = (ROOT / "docs/clients.md").read_text(encoding="utf-8").partition("\n\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|", table, re.M)
    return {name: re.findall(r"\d+\.\d+\.\d+", version) for name, version in rows}


def test_the_versions_of_clients_are_those_that_interop_runs() -> None:
    """Of those that it names; of Python's clients it runs the newest."""
    interop = ROOT / "tests/interop"
    go = dict(re.findall(r"(\S+) v(\S+)", (interop / "languages/go/go.mod").read_text(encoding="utf-8")))
    js = json.loads((interop / "languages/js/package.json").read_text(encoding="utf-8"))["dependencies"]
    frameworks = (interop / "test_frameworks.py").read_text(encoding="utf-8")
    named = dict(re.findall(r'"(\w+)(?:\[\w+\])?==([\d.]+)"', frameworks))
    apache = (interop / "apache.py").read_text(encoding="utf-8")
    older, newer = both = re.findall(r'^(?:KAFKA|NEWER)_VERSION = "([\d.]+)"', apache, re.M)
    run = {
        "franz-go (Go)": [go["github.com/twmb/franz-go"]],
        "Sarama (Go)": [go["github.com/IBM/sarama"]],
        "KafkaJS (JavaScript)": [js["kafkajs"]],
        "FastStream": [named["faststream"]],
        "Quix Streams": [named["quixstreams"]],
        "Java, Apache Kafka's own": [older],
        "Java": [newer],
        "Kafka Streams": both,
        "Connect": both,
    }
    shown = rows_of_clients()

    assert {name: shown.get(name) for name in run} == run


def test_the_page_of_differences_has_each_version_that_apache_serves_and_we_do_not() -> None:
    page = (ROOT / "docs/differences.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| first-versions \|([^|]*)", page, re.M)
    groups = re.findall(r"((?:[A-Z]\w+(?:, | and )?)+) below (\d)", row)
    shown = {name: int(first) for names, first in groups for name in re.findall(r"[A-Z]\w+", names)}
    apaches = json.loads((GOLDEN / "api_versions.json").read_text(encoding="utf-8"))["apis"]
    oldest = {apache["key"]: apache["min"] for apache in apaches}
    later = {APIS[key].name: first for key, (first, _) in SERVED.items() if first > oldest[key]}

    assert shown == later | {"Produce": FIRST_PRODUCE_VERSION}


def test_each_extra_that_a_user_may_want_is_on_a_page() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    text = "\n".join(path.read_text(encoding="utf-8") for path in documents())
    shown = {name for found in re.findall(r"(?:odradek|\.)\[([\w,]+)\]", text) for name in found.split(",")}

    assert shown == set(extras) - {"test", "dev"}


def links_of(path: Path) -> set[str]:
    return set(re.findall(r"\]\(([^)#]+)", path.read_text(encoding="utf-8")))


def test_the_map_leads_to_every_page() -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    pages |= {f"reference/{path.name}" for path in (ROOT / "docs/reference").iterdir()}

    assert pages - links_of(ROOT / "docs/README.md") == set()


def diagram(path: Path) -> str:
    """Of the rooms: the block of code that begins with `model <-`."""
    (found,) = re.findall(r"^```\n(model <- .*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)
    return found


def test_both_diagrams_of_the_rooms_are_one_and_name_each_room() -> None:
    shown = diagram(ROOT / "docs/README.md")
    rooms = {path.name for path in (ROOT / "src/odradek").iterdir() if (path / "__init__.py").exists()}

    assert diagram(ROOT / "README.md") == shown
    assert rooms - set(re.findall(r"\w+", shown)) == set()


METRIC = re.compile(r"\b(?:kafka|odradek)_[a-z0-9_]+(?![\w*])")
# A program; and what the page says is not here, or is computed by Prometheus.
NOT_SERVED = {"kafka_exporter", "kafka_network_requestmetrics_totaltimems", "kafka_consumergroup_lag"}


def metrics_that_are_not_served(text: str) -> set[str]:
    return set(METRIC.findall(text)) - {family.name for family in families()} - NOT_SERVED


def test_every_metric_that_a_page_names_is_served() -> None:
    pages = (ROOT / "docs" / name for name in ("metrics.md", "quotas.md", "operating.md"))
    found = {path.name: metrics_that_are_not_served(path.read_text(encoding="utf-8")) for path in pages}

    assert {page: names for page, names in found.items() if names} == {}


def test_a_metric_that_is_not_served_is_seen() -> None:
    text = "`sum(kafka_brokers)`, `kafka_server_*`, `odradek_requests_total`, `kafka_consumergroup_lag`"
    assert metrics_that_are_not_served(text) == {"odradek_requests_total"}


OF_CLIENTS = {"client.rack"}


def settings_that_are_not_there(text: str) -> list[str]:
    """Of what stands in a block of properties; comments apart, in one column or two."""
    blocks = re.findall(r"^```properties\n(.*?)^```", text, re.M | re.S)
    names = [name for block in blocks for name in parse_properties(block)]
    return [name for name in names if name not in BROKER_SETTINGS and name not in OF_CLIENTS]


def test_every_property_that_a_page_sets_is_there() -> None:
    found = {path.name: settings_that_are_not_there(path.read_text(encoding="utf-8")) for path in documents()}
    assert {page: names for page, names in found.items() if names} == {}


def test_a_property_that_is_not_there_is_seen() -> None:
    text = "```properties\n# a.comment=1\nbroker.id=1\nodradek.stor=/var/lib/x\n```\n"
    assert settings_that_are_not_there(text) == ["odradek.stor"]


def test_every_broker_that_a_page_configures_serves_groups() -> None:
    """One alone cannot create the internal topics with the default of three replicas."""
    found = [
        f"{path.name}: broker.id={settings['broker.id']}"
        for path in documents()
        for block in re.findall(r"^```properties\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)
        if "broker.id" in (settings := parse_properties(block))
        and not {"odradek.cluster.size", "zookeeper.connect"} & set(settings)
    ]
    assert found == []


def number(page: str, words: str) -> int:
    """What stands in the one place of a page where `words` have a number for `(N)`."""
    (found,) = re.findall(words.replace("(N)", r"(\d+)"), (ROOT / page).read_text(encoding="utf-8"))
    return int(found)


def test_what_pages_count_is_as_many() -> None:
    others = len(SHOWN_BY_TESTS) + len(SHOWN_BY_WORLDS) + len(SEARCHED_TRANSACTIONS)

    assert number("README.md", r"(N) known bugs put back") == len(EXHIBITS)
    assert number("README.md", r"has (N) more, of coordinators") == others
    assert number("docs/museum.md", r"(N) more, put back in a coordinator") == others
    assert number("CONTRIBUTING.md", r"(N) seeds, which draw every kind of fault") == len(SEEDS + ELSEWHERE)
    assert number("docs/simulator.md", r"sets the limits of (N) modules") == len(LIMITS)


def test_the_glossary_names_all_invariants_and_faults_of_the_simulator() -> None:
    page = (ROOT / "docs/simulator.md").read_text(encoding="utf-8")
    last = {sign: max(map(int, re.findall(rf"^\| {sign}(\d+)\b", page, re.M))) for sign in "IF"}

    assert number("docs/glossary.md", r"I1 to I(N), F1 to F\d+ ") == last["I"]
    assert number("docs/glossary.md", r"I1 to I\d+, F1 to F(N) ") == last["F"]


def test_the_scenario_that_the_page_shows_comes_out_as_written() -> None:
    page = (ROOT / "docs/simulator.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```\n(# .*?\n----\n.*?)```", page, re.M | re.S)

    assert scenario.play(shown) == shown


def test_the_steps_of_a_reassignment_are_those_that_its_status_names() -> None:
    page = (ROOT / "docs/explain.md").read_text(encoding="utf-8").partition("## The twelve steps")[2]

    assert re.findall(r"^\d+\. (.*)", page, re.M) == list(STEPS)


def test_each_request_of_the_table_of_turns_is_one_of_the_benchmark() -> None:
    page = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    code = (ROOT / "benchmarks/turns.py").read_text(encoding="utf-8")
    shown = re.findall(r"^\| ([A-Z]\w+: [^|]+) \| ([\d,]+) \|", page, re.M)
    measured = re.findall(r'^    "(\w+: [^"]+)": \(\w+, ([\d_]+)', code, re.M)

    assert len(shown) > 20
    assert set(shown) - {(name, rows.replace("_", ",")) for name, rows in measured} == set()


def test_whatever_a_seed_may_say_of_clients_is_on_the_page_of_the_simulator() -> None:
    code = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "src/odradek/sim/checkers").glob("*.py"))
    names = set(re.findall(r'Anomaly\(\s*"([\w-]+)"', code))
    page = (ROOT / "docs/simulator.md").read_text(encoding="utf-8")

    assert {"unseen", "lost-commit"} <= names
    assert [
        name for name in sorted(names) if not re.search(rf"(`|^\|.*\b){name}(`|\b.*\|)", page, re.M)
    ] == []


def test_the_page_of_the_search_has_each_bug_and_the_length_of_its_counter_example() -> None:
    page = (ROOT / "docs/explore.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| `(\w+)`[^|]*\| [^|]+ \| (\d+) \|", page, re.M)

    assert {name: int(actions) for name, actions in shown} == {m.name: LENGTHS[m.name] for m in SEARCHED}
    *most, last = (f"`{name}`" for name in sorted(SEEN_NOWHERE_ELSE))
    assert f"all but {', '.join(most)} and {last} break an invariant" in page


def test_the_page_of_spark_names_each_option_of_source_and_topic_sink() -> None:
    page = (ROOT / "docs/spark.md").read_text(encoding="utf-8")
    known = {name for of in (options, topic_options) for name in (*of._USED, *of._ACCEPTED, *of._KAFKA_USED)}

    assert {"subscribe", "progressTopic"} <= known
    assert [name for name in sorted(known - {"checkpointLocation"}) if f"`{name}`" not in page] == []
