"""The documents say what the code says, and every link in them leads somewhere."""

import importlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from odradek.broker.handlers.table import HANDLERS
from odradek.protocol.api_keys import SERVED, ApiKey
from tests.coordinator.traces import traces
from tests.support import each

ROOT = Path(__file__).parent.parent


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["settings.md", "api-keys.md", "commands.md", "state-machines.md"])
def test_a_reference_page_is_what_the_code_says(name: str) -> None:
    written = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")

    assert written == generator().PAGES[name](), "run: python docs/generate.py"


def documents() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


@each(documents(), str)
def test_every_link_to_a_file_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (path.parent / link).exists()]

    assert missing == []


def test_every_decision_is_numbered_once() -> None:
    numbers = [p.name[:4] for p in sorted((ROOT / "docs" / "decisions").glob("*.md"))]

    assert numbers == [f"{n:04d}" for n in range(1, len(numbers) + 1)]


NOT_HERE = re.compile(
    r"""(?<![\w/.])(?:\.\./)?(?:shared/|spec/|design/|found/|(?<!tests/)golden/)\w   # folders of working papers
    |\bhouse\.md\b|\bstyle\.md\b|\breading-\d\.md\b
    |(?<![\w.])/work/""",
    re.VERBOSE,
)


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


@pytest.mark.parametrize("page", ["clients.md"])
def test_the_tests_a_page_names_are_there(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)

    assert named
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not re.search(rf"def {name}\(", (ROOT / file).read_text(encoding="utf-8"))
    ]
    assert missing == []


def test_the_traces_a_page_names_are_played() -> None:
    text = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b((?:classic|consumer|limits|transactions)-[\d.]+)/([a-z-]+[a-z0-9-]*)", text))

    assert named
    assert [f"{folder}/{name}" for folder, name in sorted(named) if name not in traces(folder)] == []
