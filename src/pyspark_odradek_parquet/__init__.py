"""As in `pyspark_odradek`: `format("odradek-parquet")` is found without a registration, over Spark Connect too."""

from odradek.spark.sink import ParquetSink as DefaultSource

__all__ = ["DefaultSource"]
