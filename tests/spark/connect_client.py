"""Run by test_connect in an environment that has `pyspark-client` and nothing of ours: `connect_client.py SC:// BOOTSTRAP TOPIC TO DIRECTORY`.

Prints what it found as JSON.
"""

import importlib.util
import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

remote, bootstrap, topic, to, directory = sys.argv[1:]
found: dict[str, Any] = {"ours": importlib.util.find_spec("odradek") is not None}
spark = SparkSession.builder.remote(remote).getOrCreate()
brokers = {"kafka.bootstrap.servers": bootstrap}


def read(name: str) -> DataFrame:
    return spark.read.format("odradek").options(**brokers, subscribe=name).load()


def streamed(sink: str, frame: DataFrame | None = None, **options: str) -> None:
    if frame is None:
        reader = spark.readStream.format("odradek").options(**brokers, subscribe=topic)
        frame = reader.option("startingOffsets", "earliest").load().select("key", "value")
    writer = frame.writeStream.format(sink).options(**options)
    query = writer.option("checkpointLocation", f"{directory}/checkpoint-{len(found)}").trigger(
        availableNow=True
    )
    running = query.start()
    running.awaitTermination()
    found[sink] = running.lastProgress.numInputRows


found["batch"] = sorted(bytes(row.value).decode() for row in read(topic).select("value").collect())
read(topic).createOrReplaceTempView("records")
found["sql"] = spark.sql("SELECT count(*) AS n FROM records WHERE partition = 0").collect()[0].n
streamed("odradek-delta", table=f"{directory}/delta", appId="delta")
streamed("odradek-parquet", path=f"{directory}/parquet", appId="parquet")
streamed("odradek", **brokers, topic=to, appId="topic", directory=f"{directory}/topic")
both = {"table": f"{directory}/fused", "appId": "fused"}
fused = spark.readStream.format("odradek-fused").options(**brokers, **both, subscribe=topic)
streamed("odradek-delta", fused.option("startingOffsets", "earliest").load(), **both)
found["read back"] = spark.read.parquet(f"{directory}/parquet").count()
(
    read(topic)
    .selectExpr("value")
    .write.format("odradek")
    .mode("append")
    .options(**brokers, topic=to, directory=f"{directory}/topic-batch")
    .save()
)
try:
    read("nobody-has-made-it").collect()
except Exception as error:
    found["error"] = str(error)
print(json.dumps(found))
spark.stop()
