"""S3's outage on three real broker processes; docs/s3-outage.md is what came out of this story."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

pytestmark = [pytest.mark.process, pytest.mark.slow]

DOCS = Path(__file__).parent.parent.parent / "docs"


def story() -> ModuleType:
    spec = importlib.util.spec_from_file_location("s3_outage", DOCS / "s3_outage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_a_cluster_says_when_s3s_outage_happens_to_it(tmp_path: Path) -> None:
    told = story()
    sections = {section.title: section for section in told.run(tmp_path)}
    outputs = {title: [command.output for command in s.commands] for title, s in sections.items()}
    codes = {title: [command.code for command in s.commands] for title, s in sections.items()}

    (impact,) = outputs["Before: the impact"]
    assert impact.startswith("Stopping broker 2: 2 partitions go offline, no other live copy is in sync;")
    assert codes["Before: the impact"] == [1]

    _, refused, well = outputs["The refusal"]
    assert (
        "broker 2 stays up, odradek.controlled.shutdown.refuse=offline: 2 partitions would go offline"
        in refused
    )
    assert "first reassign dw_test-1 to [1]" in refused
    assert well == "dw_test is well: 6 partitions, each with a leader and every replica in sync.\n"

    _, why, health, unclean, what_if = outputs["`kill -9`: the outage"]
    assert why.startswith(
        "dw_test-1 is offline, no member of its ISR is live (ISR [2], live: []): broker 2 is not live"
    )
    assert "Remedy: start broker 2: then 2 leads, ISR [2]." in why
    assert health.startswith("NOT healthy") and "2 partitions, no leader: neither written nor read" in health
    assert unclean.startswith("dw_test-1 has no replica that can lead: none is alive.")
    assert what_if.startswith("start 2: 2 comes online\n")

    applied, safe, stopped, well, records = outputs["The reassignment that heals it"]
    assert applied.startswith("2 of 2 moves started.") and applied.endswith("2 of 2 done\n")
    assert safe == "Stopping broker 2: safe: nothing goes offline; another leader for 0.\n"
    assert stopped == "0\n", "now it stops in order"
    assert well.startswith("dw_test is well: ")
    assert records.splitlines() == [f"key-{n} record {n}" for n in range(told.RECORDS)]

    (line,) = outputs["Looking back"]
    assert "offline from " in line and ": broker 2 failed" in line and "reassignment 2 -> 1 began" in line
    for picture in (tmp_path / "s3-outage.svg", told.PICTURE):
        assert "dw_test-1" in "".join(ElementTree.parse(picture).getroot().itertext())

    page = told.render(list(sections.values()))
    # Whoever types it has what it names: `up` forks its brokers, so no pattern finds one of them by its command line.
    (victim,) = re.findall(r"^ +2  127\.0\.0\.1:9093  (\d+)  ", page, re.MULTILINE)
    assert re.findall(r"^\$ kill (.*)", page, re.MULTILINE) == [
        victim,
        f"-9 {victim}",
        "%1; wait %1; echo $?",
    ]
    written = told.PAGE.read_text(encoding="utf-8")
    assert told.comparable(written) == told.comparable(page), "run: python docs/s3_outage.py"
