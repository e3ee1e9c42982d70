"""Exhaustive search at small scope, over the functions that run in production: see docs/explore.md."""
