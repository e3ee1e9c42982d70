"""Frames and connections, which both ends of the wire use; a blocking client for Spark and the command line."""
