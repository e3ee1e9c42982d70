"""What went into and out of the replicas of one topic on this broker: plain integers, added up where it happens and read by
whoever shows them."""


class TopicTraffic:
    """One a topic. Bytes are those of record batches as they are stored; Apache's BrokerTopicMetrics count the same.

    `bytes_out` goes to consumers, `replicated_bytes_out` to followers. `produce_requests` and `fetch_requests` count the partitions
    that requests named and that were answered, refusals included; `failed_*` those refused for another reason than a leader that has
    moved or records that are wrong, as Apache counts them.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_requests",
        "messages_in",
        "produce_requests",
        "replicated_bytes_in",
        "replicated_bytes_out",
    )

    bytes_in: int
    bytes_out: int
    failed_fetch_requests: int
    failed_produce_requests: int
    fetch_requests: int
    messages_in: int
    produce_requests: int
    replicated_bytes_in: int
    replicated_bytes_out: int

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    def add(self, other: "TopicTraffic") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
