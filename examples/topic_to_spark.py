"""A topic as a DataFrame: produce some lines, then ask Spark about them."""

import tempfile

from confluent_kafka import Producer

from odradek.spark.session import local_session
from odradek.testing.process_cluster import ProcessCluster

with tempfile.TemporaryDirectory() as directory, ProcessCluster(directory, brokers=1) as cluster:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "allow.auto.create.topics": True})
    for number in range(1_000):
        producer.produce("readings", key=f"sensor-{number % 3}", value=str(number))
    producer.flush()
    spark = local_session()
    readings = (
        spark.read.format("odradek")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("subscribe", "readings")
        .load()
    )
    averages = readings.selectExpr("string(key) AS sensor", "double(string(value)) AS value")
    averages.groupBy("sensor").avg("value").orderBy("sensor").show()
    spark.stop()
