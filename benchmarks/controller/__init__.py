"""The controller at size: `python -m benchmarks.controller` measures it, docs/controller-scale.md has the table."""
