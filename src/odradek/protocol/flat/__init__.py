"""Codecs written by `python docs/generate.py`: see `odradek.protocol.flattening`."""
