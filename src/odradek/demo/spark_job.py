"""The demo's Spark job: `topic_to_table` to its end, then an aggregate of the table in the same session.

Prints one line of JSON: how many batches and records, and the groups. Flights are grouped by carrier and hour
with their departure delays; anything else is counted by key.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW, COLUMN, MEASURE = "carrier", "hour", "dep_delay"
MEASURE_WORDS = "departure delay in minutes"
MOST_KEYS = 200


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for name in ("bootstrap", "topic", "table", "checkpoint", "columns"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--max-offsets-per-trigger", type=int)
    options = parser.parse_args(arguments)

    from odradek.model.errors import OdradekError
    from odradek.spark.jobs.topic_to_table import Job, start, summary
    from odradek.spark.session import find_java, local_session

    job = Job(
        bootstrap=options.bootstrap,
        topics=(options.topic,),
        table=options.table,
        checkpoint=options.checkpoint,
        max_offsets_per_trigger=options.max_offsets_per_trigger,
    )
    try:
        java = find_java()
        spark = local_session("odradek-demo")
        start(spark, job).awaitTermination()
        found = aggregate(spark, options.table, json.loads(options.columns))
    except OdradekError as error:
        print(f"odradek demo: {error}", file=sys.stderr)
        return 1
    print(json.dumps({**summary(job), "java": f"{java}.", "aggregate": found}), flush=True)
    return 0


def aggregate(spark: "SparkSession", table: str, columns: list[str]) -> dict[str, Any]:
    from deltalake import DeltaTable

    from odradek.spark.table_rows import file_paths

    # The table's own list of files: what a killed driver left behind is in the directory, and not in it.
    rows = spark.read.parquet(*file_paths(DeltaTable(os.path.abspath(table))))
    if {ROW, COLUMN, MEASURE} <= set(columns):
        groups = delays(rows, columns).collect()
        return {
            "row": ROW,
            "column": COLUMN,
            "measure": MEASURE_WORDS,
            "groups": [[g[ROW], g[COLUMN], g["records"], g["measured"], g["total"] or 0.0] for g in groups],
        }
    groups = by_key(rows).collect()
    return {
        "row": "key",
        "column": "",
        "measure": None,
        "groups": [[g["key"], "", g["records"], 0, 0.0] for g in groups],
    }


def delays(rows: "DataFrame", columns: list[str]) -> "DataFrame":
    """carrier, hour, records, measured, total: a flight that never left has no delay to be counted, and "NaN" is none."""
    from pyspark.sql import functions as F

    # By their places: of "Hour" and "hour" Spark would not know which is meant, and a name may hold any character.
    schema = ", ".join(f"c{place} STRING" for place in range(len(columns)))
    fields = rows.select(F.from_csv(F.col("value").cast("string"), schema).alias("f"))
    row, column, measure = (F.col(f"f.c{columns.index(name)}") for name in (ROW, COLUMN, MEASURE))
    number = measure.try_cast("double")
    delay = F.when(F.abs(number) < float("inf"), number)  # of "NaN" Spark has that it is larger than all
    return (
        fields.groupBy(row.alias(ROW), column.alias(COLUMN))
        .agg(
            F.count("*").alias("records"),
            F.count(delay).alias("measured"),
            F.sum(delay).alias("total"),
        )
        .select(ROW, COLUMN, "records", "measured", "total")
    )


def by_key(rows: "DataFrame") -> "DataFrame":
    """key, records: the most frequent ones."""
    from pyspark.sql import functions as F

    key = F.coalesce(F.col("key").cast("string"), F.lit("(none)"))
    return (
        rows.groupBy(key.alias("key"))
        .agg(F.count("*").alias("records"))
        .orderBy(F.desc("records"), "key")
        .limit(MOST_KEYS)
    )


if __name__ == "__main__":
    sys.exit(main())
