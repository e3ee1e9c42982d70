"""As in `pyspark_odradek`: `format("odradek-delta")` is found without a registration, over Spark Connect too."""

from odradek.spark.sink import DeltaSink as DefaultSource

__all__ = ["DefaultSource"]
