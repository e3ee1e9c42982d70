"""As in `pyspark_odradek`: `format("odradek-fused")` is found without a registration, over Spark Connect too."""

from odradek.spark.sink import FusedSource as DefaultSource

__all__ = ["DefaultSource"]
