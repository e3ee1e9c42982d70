"""The store of one host: one SQLite file that several processes share.

database     the file: schema, versions of the format, one transaction at a time (no threads, no time)
operations   the tree's ops inside a transaction
liveness     who is alive: a kernel lock, a heartbeat and a bell for each session
worker       the one thread of a session: all that blocks happens there
session      the `Store` on the event loop
"""

from odradek.store.embedded.session import EmbeddedStore, EmbeddedStores

__all__ = ["EmbeddedStore", "EmbeddedStores"]
