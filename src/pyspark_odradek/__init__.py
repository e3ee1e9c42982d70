"""Spark imports every module named `pyspark_*` and registers its DefaultSource: no registration is needed."""

from odradek.spark.source import OdradekSource as DefaultSource

__all__ = ["DefaultSource"]
