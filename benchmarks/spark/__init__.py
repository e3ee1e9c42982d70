"""Spark's own Kafka connector, delta-spark and ours, taking turns in one run: `python -m benchmarks.spark`."""
