"""Changes of the production code that tests, scenarios, seeds or the exhaustive search must see: one engine, two sources.

*Chosen*: `table/` lists them, each anchored to a function and a part of its syntax tree (`edit`), with who sees it: a test of a
numbered behaviour (`tests/behaviours.py`), a scenario (`museum/`), the exhaustive search (`search`).

*Drawn* by a seed over the syntax trees (`drawing`), and judged by tests and simulator:

    python -m tests.mutants --count 100 --seed 1 --results out/mutants.jsonl

A net is as good as what it catches unseen: the chosen ones were chosen by those who wrote the tests, these were not.

Either is a `Site` in a file (`sites`), put into the running process (`patching`) or into a copy of the source (`trial`).
"""
