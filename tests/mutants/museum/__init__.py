"""The bug museum: bugs that users of Apache Kafka met, each put back as one line, and what catches it here."""
