"""The benchmark harness: ours and Apache Kafka in one run, same clients, alternating, read back afterwards."""
