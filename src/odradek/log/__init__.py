"""The log on disk, in Apache Kafka's directory format."""
