"""Mutations that nobody chose: drawn by a seed over the syntax trees, and judged by tests and simulator.

    python -m tests.mutants --count 100 --seed 1 --results out/mutants.jsonl

A net is as good as what it catches unseen: the mutations of `tests/mutations` and of the museum were chosen by those who
wrote the tests, these were not.
"""
