"""Apache Kafka itself beside our brokers, under its own tools and clients. `make interop` runs this."""
