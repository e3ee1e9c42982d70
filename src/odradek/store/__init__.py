"""ZooKeeper's tree semantics (`api`), kept in memory, in one SQLite file, or by a real ensemble."""
