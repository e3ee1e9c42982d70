"""A load that does not stop for faults: an idempotent producer at a steady pace, and the books of what was acknowledged."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from tests.clients.support import Books, retrying, value_of


class Load:
    """An idempotent producer at a steady pace, in a thread of its own, until it is told to stop."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        books: Books,
        *,
        partitions: int,
        records_per_second: int,
        options: Mapping[str, Any] | None = None,
        may_go_on: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_go_on` is asked before each record: while it says no, nothing is sent."""
        self.complaints: deque[str] = deque(maxlen=5)  # what the client said last of itself
        self._partitions = partitions
        self._records_per_second = records_per_second
        self._may_go_on = may_go_on
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "error_cb": lambda error: self.complaints.append(str(error)),
                **(options or {}),
            }
        )
        self._topic = topic
        self.books = books
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self.sent = 0
        self.error: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        if self.error is not None:
            raise self.error
        retrying(lambda: self._producer.flush(1.0) == 0, "every record is answered")
        self._close()

    def abandon(self) -> None:
        """The test has failed: nobody waits for what is on its way."""
        self._stop.set()
        self._thread.join()
        self._producer.purge()
        self._close()

    def _close(self) -> None:
        """It refers to us as we to it, and would look for its brokers until somebody collects both."""
        del self._producer

    def check(self) -> None:
        """AssertionError when it has ended by itself: nothing will be acknowledged any more, however well the cluster is."""
        assert self.error is None, f"the producer's thread ended with {self.error!r}"

    @property
    def in_flight(self) -> int:
        return self.sent - self.books.count

    def _run(self) -> None:
        try:
            begun = time.monotonic()
            number = 0
            while not self._stop.is_set():
                due = int((time.monotonic() - begun) * self._records_per_second) // self._partitions
                while number < due and self._may_go_on():
                    for partition in range(self._partitions):
                        self._producer.produce(
                            self._topic,
                            value_of(number),
                            partition=partition,
                            on_delivery=self._told(number),
                        )
                        self.sent += 1
                    number += 1
                self._producer.poll(0.002)
        except BaseException as error:
            self.error = error

    def _told(self, number: int) -> Any:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.books.fail(str(error))
            else:
                self.books.acknowledge(message.partition(), message.offset(), number)

        return on_delivery
