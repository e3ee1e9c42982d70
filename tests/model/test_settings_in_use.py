"""A setting that the table calls acted on is read by some code. One that is not would be an empty promise."""

import ast
from pathlib import Path

from odradek.broker.dynamic_settings import CLEANER_THREADS, THREAD_COUNTS
from odradek.model.settings import BROKER_SETTINGS, TOPIC_SETTINGS

SRC = Path(__file__).parent.parent.parent / "src" / "odradek"
TABLES = {"settings_acted_on.py", "settings_listed.py"}


def names_read() -> set[str]:
    """Every attribute that is read, and every text that could name a setting, outside the tables."""
    found: set[str] = set()
    for path in SRC.rglob("*.py"):
        if path.name in TABLES:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def test_every_setting_that_is_acted_on_is_read_somewhere():
    read = names_read()
    topics_read = {s.name for s in TOPIC_SETTINGS.values() if s.attribute in read or s.name in read}
    # A broker setting may work through the topics whose default it is.
    through_topics = {synonym for name in topics_read for synonym in TOPIC_SETTINGS[name].broker_synonyms}
    idle = [
        setting.name
        for setting in BROKER_SETTINGS.values()
        if setting.acted_on
        and setting.attribute not in read
        and setting.name not in read
        and setting.name not in through_topics
    ]
    idle += [s.name for s in TOPIC_SETTINGS.values() if s.acted_on and s.name not in topics_read]
    assert idle == []


def test_a_number_of_threads_that_nothing_acts_on_says_what_there_is_here():
    """`DescribeConfigs` shows it without the heading that the reference has."""
    counts = [BROKER_SETTINGS[name] for name in (*THREAD_COUNTS, CLEANER_THREADS)]
    assert [setting.name for setting in counts if not setting.acted_on and "; here " not in setting.doc] == []
