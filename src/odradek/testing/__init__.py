"""Clusters for tests, in this process (`running_cluster`) or in several (`process_cluster`)."""
