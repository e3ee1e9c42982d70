"""Counters as plain ints: a labelled `inc()` costs 2.3 us, this 0.09. Whoever shows them reads them."""


class Metrics:
    """One per broker."""

    __slots__ = (
        "bytes_in",
        "connections_accepted",
        "connections_idle_closed",
        "connections_now",
        "connections_refused",
        "controller_elections",
        "controller_resignations",
        "fetcher_failures",
        "nonsense_frames",
        "requests",
        "requests_failed_inside",
        "requests_not_served",
        "session_expirations",
    )

    bytes_in: int
    connections_accepted: int
    connections_idle_closed: int
    connections_now: int
    connections_refused: int
    controller_elections: int
    controller_resignations: int
    fetcher_failures: int
    nonsense_frames: int
    requests: int
    requests_failed_inside: int
    requests_not_served: int
    session_expirations: int

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    def snapshot(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}
