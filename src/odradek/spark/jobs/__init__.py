"""Whole jobs, each a module that runs: `python -m odradek.spark.jobs.topic_to_table --help`."""
