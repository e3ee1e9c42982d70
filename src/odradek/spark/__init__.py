"""The data pipeline on Spark: topics as DataFrames, and into tables exactly once.

    source         spark.read / readStream.format("odradek"); options, offsets, ranges, subscription plan it
    reading        what executors do; decode and record_positions turn record batches into Arrow
    sink           writeStream.format("odradek-delta"); writing, parquet, parts in the tasks, tables on the driver
    fingerprint    the order-independent hash; verify compares topic, table and commits by it
    session        a local session and the Java under it
    jobs/          whole jobs that run as modules

Nothing here is imported by a broker, and pyspark only where a session is needed anyway.
"""
