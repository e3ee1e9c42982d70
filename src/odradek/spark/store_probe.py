"""Whether a store keeps the condition that a commit needs (`If-None-Match: *`): asked before anything is written.

Two writers create one small object in the same moment, the way commits are made. To try it in turn would tell nothing: the
second sees what is there, and does not ask for it.
"""

import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

from odradek.spark.object_store import ObjectStore, StoreError, is_first, place, unbroken
from odradek.spark.parquet import OWN_DIRECTORY
from odradek.spark.places import below, is_in_store

_RACES = 3


def check(table: str, option: str = "--table") -> None:
    """StoreError where the store cannot be reached, or lets two writers create one thing: then no commit would be safe.

    Writes below TABLE/_odradek/probe, and takes it away.
    """
    if not is_in_store(table):
        return
    for _ in range(_RACES):
        made = unbroken(partial(_made, table))
        if made > 1:
            raise StoreError(
                f"{option} {table}: the store at {place()} has let two writers create the same object, so it passes over "
                f"If-None-Match; a commit could take the place of another, and nothing was written; a store that keeps conditional "
                f"writes is needed (S3, MinIO and others do), or a directory"
            )


def _made(table: str) -> int:
    name = f"{OWN_DIRECTORY}/probe/{uuid.uuid4().hex}"
    try:
        return _raced(table, name)
    finally:
        store = ObjectStore(table)
        store.delete(store.listed(name))


def _raced(table: str, name: str) -> int:
    """How many of two believe that they have made the first version of the same table."""
    begin = Barrier(2)

    def made() -> bool:
        begin.wait()
        return is_first(below(table, name), "")

    with ThreadPoolExecutor(2) as writers:
        return sum(one.result() for one in [writers.submit(made) for _ in range(2)])
