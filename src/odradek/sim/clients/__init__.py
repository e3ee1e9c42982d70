"""Who writes to a simulated cluster, reads from it and administers it."""
