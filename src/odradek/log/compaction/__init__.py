"""Compaction: of every key the newest record stays. Pure; `server.cleaning` reads and writes the files."""
