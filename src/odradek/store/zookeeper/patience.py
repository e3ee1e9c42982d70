"""How long one attempt to connect may take, from the first packet to the answer of the server.

A ZooKeeper that is starting may accept a connection and never answer on it: it refuses what comes too early, and where
its database is not made yet the refusal fails before it has closed the socket (`ZooKeeperServer.removeCnxn`, 3.9). kazoo
would wait there for the whole timeout of the session, and the session would be given up meanwhile.
"""

# Of the session's timeout; doubled with each attempt that was not answered, for a server that is only slow.
FIRST_SHARE = 1 / 8
SHORTEST_S = 1.0


class Patience:
    def __init__(self, session_timeout_s: float) -> None:
        self._longest_s = session_timeout_s
        self._first_s = min(max(SHORTEST_S, session_timeout_s * FIRST_SHARE), session_timeout_s)
        self.now_s = self._first_s

    def was_answered(self) -> None:
        self.now_s = self._first_s

    def was_in_vain(self) -> None:
        self.now_s = min(2 * self.now_s, self._longest_s)
