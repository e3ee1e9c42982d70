"""Looking at the cluster while the collector works: a thread that asks for Metadata and marks what changed."""

import threading
import time

from odradek.client.sync import ClusterView, SyncClient
from odradek.demo.timeline import Timeline
from odradek.model.errors import OdradekError

POLL_S = 0.025
FIRST_ANSWER_S = 10.0


class ClusterWatch:
    """Asks until it is stopped; `view` is the last answer. The first one is waited for: a few records are produced in less time
    than it takes."""

    def __init__(self, bootstrap: str, topic: str, replicas: int, timeline: Timeline) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._replicas = replicas
        self._timeline = timeline
        self._ended = threading.Event()
        self._epochs: dict[int, int] = {}  # of the leaders, before anything happened
        self._shrunk = False
        self.view: ClusterView | None = None
        self.restarted = False
        self.isr_full_again = threading.Event()
        self._is_answered = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cluster-watch", daemon=True)

    def __enter__(self) -> "ClusterWatch":
        self._thread.start()
        self._is_answered.wait(FIRST_ANSWER_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def isr_sizes(self) -> list[int]:
        view = self.view
        if view is None or self._topic not in view.topics:
            return []
        return [len(p.isr) for _, p in sorted(view.topics[self._topic].partitions.items())]

    def _run(self) -> None:
        client = SyncClient(self._bootstrap, bootstrap_timeout_s=1.0, request_timeout_s=1.0)
        try:
            while not self._ended.is_set():
                try:
                    self._observe(client.cluster([self._topic]))
                except OdradekError:
                    # The broker asked last is the one that was killed: ask another.
                    client.close()
                self._ended.wait(POLL_S)
        finally:
            client.close()

    def _observe(self, view: ClusterView) -> None:
        self.view = view
        self._is_answered.set()
        sizes = self.isr_sizes()
        is_full = bool(sizes) and all(size == self._replicas for size in sizes)
        now_ms = time.time() * 1000
        # A smaller ISR may last too short a moment to be looked at; the leader epoch it brought stays.
        if not self._shrunk and sizes and (not is_full or self._has_new_leader_epoch(view)):
            self._shrunk = True
            self._timeline.mark(now_ms, "isr-shrunk", "ISR without the dead broker")
        elif self._shrunk and self.restarted and is_full and not self.isr_full_again.is_set():
            self._timeline.mark(now_ms, "isr-full", "every ISR full again")
            self.isr_full_again.set()

    def _has_new_leader_epoch(self, view: ClusterView) -> bool:
        epochs = {index: p.leader_epoch for index, p in view.topics[self._topic].partitions.items()}
        return any(epoch > self._epochs.setdefault(index, epoch) for index, epoch in epochs.items())
