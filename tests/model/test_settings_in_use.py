"""A setting that the table calls acted on is read by some code. One that is not would be an empty promise."""

import ast
from collections.abc import Iterable
from pathlib import Path

from odradek.broker.dynamic_settings import CLEANER_THREADS, THREAD_COUNTS
from odradek.model.settings import BROKER_SETTINGS, TOPIC_SETTINGS, Setting

SRC = Path(__file__).parent.parent.parent / "src" / "odradek"
TABLES = {"settings_acted_on.py", "settings_listed.py"}


def are_read(settings: Iterable[Setting]) -> set[str]:
    """The names of those that are an attribute which is read, or a text that could name a setting, outside the tables. A file is
    parsed only where its text has one that no file before it reads: to parse all of them takes two seconds."""
    wanted = {setting.name: setting.attribute for setting in settings}
    found: set[str] = set()
    for path in sorted(SRC.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if path.name in TABLES or not any(name in text or other in text for name, other in wanted.items()):
            continue
        read: set[str] = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute):
                read.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                read.add(node.value)
        found |= {name for name, attribute in wanted.items() if name in read or attribute in read}
        wanted = {name: attribute for name, attribute in wanted.items() if name not in found}
    return found


def test_every_setting_that_is_acted_on_is_read_somewhere():
    topics_read = are_read(TOPIC_SETTINGS.values())
    # A broker setting may work through the topics whose default it is.
    through_topics = {synonym for name in topics_read for synonym in TOPIC_SETTINGS[name].broker_synonyms}
    acted_on = [setting for setting in BROKER_SETTINGS.values() if setting.acted_on]
    idle = {setting.name for setting in acted_on} - through_topics - are_read(acted_on)
    idle |= {setting.name for setting in TOPIC_SETTINGS.values() if setting.acted_on} - topics_read
    assert idle == set()


def test_a_number_of_threads_that_nothing_acts_on_says_what_there_is_here():
    """`DescribeConfigs` shows it without the heading that the reference has."""
    counts = [BROKER_SETTINGS[name] for name in (*THREAD_COUNTS, CLEANER_THREADS)]
    assert [setting.name for setting in counts if not setting.acted_on and "; here " not in setting.doc] == []
