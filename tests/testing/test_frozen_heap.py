"""Whoever thaws what the collector shall not look at slows down no file of tests but its own."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Of a process of its own: what a process of tests holds is half a million objects, and each look passes over them all.
BEGIN = """
import gc
import weakref
from tests import frozen_heap

modules = [[] for _ in range(20_000)]
frozen_heap.freeze()
"""
THAWED = """
gc.unfreeze()
class Circle:
    pass
circle = Circle()
circle.itself, kept = circle, weakref.ref(circle)
del circle
frozen_heap.freeze_again()
assert gc.get_freeze_count() > 20_000
assert gc.collect() == 0 and kept() is None
"""
LEFT_ALONE = """
before = gc.get_freeze_count()
kept = [[] for _ in range(1_000)]
frozen_heap.freeze_again()
assert gc.get_freeze_count() <= before and len(kept) == 1_000
"""


def holds(text: str) -> None:
    subprocess.run([sys.executable, "-c", BEGIN + text], cwd=ROOT, check=True, timeout=60)


def test_what_was_thawed_is_frozen_again_without_what_is_garbage() -> None:
    holds(THAWED)


def test_what_is_frozen_is_left_alone() -> None:
    holds(LEFT_ALONE)
