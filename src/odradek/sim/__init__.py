"""The simulator: whole brokers on one deterministic loop. Production code, not a twin."""
