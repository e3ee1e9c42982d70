"""Topics with ids, for tests of groups that name them so."""

from collections.abc import Mapping


class Topics(dict[str, int]):
    """Topics and their ids, which come in the order in which the traces have them."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        super().__init__(topics)
        self.changes = 0

    def set(self, name: str, partitions: int | None) -> None:
        self.changes += 1
        if partitions is None:
            del self[name]
        else:
            self[name] = partitions

    def id_of(self, name: str) -> bytes | None:
        return topic_id(name) if name in self else None

    def name_of(self, wanted: bytes) -> str | None:
        return next((name for name in self if topic_id(name) == wanted), None)


def topic_id(name: str) -> bytes:
    return {"late1": b"\1", "t2": b"\2", "t1": b"\3"}.get(name, name.encode()).ljust(16, b"\0")
