"""Where a query stands, committed to a consumer group, so that every lag tool shows it: `odradek group describe`, say.

    listener  is told by Spark of each batch that is finished, and only remembers where it ended
    thread    commits the newest of that, and tries again for as long as nobody coordinates the group

The query itself reads from its checkpoint and never from the group: a commit that is late or lost costs it nothing. So
nothing here holds a batch back or ends a query. The group must have no members: it is committed to from outside.
"""

import json
import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener

from odradek.client.sync import SyncClient
from odradek.client.sync_groups import commit
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import OdradekError, ProtocolError
from odradek.model.ids import TopicPartition
from odradek.spark.progress import ends_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CLIENT_ID = "odradek-spark-group"
AGAIN_AFTER_S = 1.0  # after a failure; doubled each time, up to a minute
LONGEST_PAUSE_S = 60.0
# An idle query commits nothing new, and brokers forget offsets that nobody commits (`offsets.retention.minutes`, a week).
REPEAT_S = 3600.0
CLOSE_S = 5.0
logger = logging.getLogger(__name__)


class GroupOffsets:
    """One group of one query. `tell` never waits; a thread of its own commits."""

    def __init__(self, bootstrap: str, group: str) -> None:
        """ConfigurationError where `bootstrap` is no address."""
        self._client = SyncClient(bootstrap, client_id=CLIENT_ID)  # of the thread alone
        self._group = group
        self._changed = threading.Condition()
        self._newest: dict[TopicPartition, int] = {}
        self._is_new = False
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name=f"offsets of {group}", daemon=True)
        self._thread.start()

    def tell(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Up to where the query has read everything; what is not committed yet is forgotten for it."""
        with self._changed:
            if dict(offsets) == self._newest:
                return
            self._newest, self._is_new = dict(offsets), True
            self._changed.notify()

    def close(self, timeout_s: float = CLOSE_S) -> bool:
        """Commits what is left, in at most that time; whether that was done."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive() and not self._is_new

    def _run(self) -> None:
        pause = AGAIN_AFTER_S
        with self._client as client:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._is_new or self._is_closing, REPEAT_S)
                    if self._is_closing and not self._is_new:
                        return
                    offsets, self._is_new = self._newest, False
                if not offsets:
                    continue
                try:
                    self._commit(client, offsets)
                    pause = AGAIN_AFTER_S
                except OdradekError as error:
                    logger.warning("group %s does not show where its query stands: %s", self._group, error)
                    with self._changed:
                        self._is_new = True
                        if self._is_closing:
                            return
                        self._changed.wait_for(lambda: self._is_closing, pause)
                    pause = min(2 * pause, LONGEST_PAUSE_S)

    def _commit(self, client: SyncClient, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, code in commit(client, self._group, offsets).items():
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                raise ProtocolError(
                    code, f"{self._group} has members of its own; a query needs a group of its own"
                )
            if code != ErrorCode.NONE:
                raise ProtocolError(code, f"{partition}: {code.name}")


class GroupListener(StreamingQueryListener):
    """Tells groups of the batches that their queries have finished.

    A run of a query is followed, not the query: one that is started anew from its checkpoint keeps its id, and Spark may tell
    of the end of the run before while the next one is at work.
    """

    def __init__(self) -> None:
        self._groups: dict[str, GroupOffsets] = {}  # by run

    def follow(self, query: "StreamingQuery", bootstrap: str, group: str) -> None:
        self._groups[str(query.runId)] = GroupOffsets(bootstrap, group)
        self._tell(str(query.runId), query.lastProgress)  # what was finished before we listened

    def look(self, query: "StreamingQuery") -> None:
        """At what was finished before events of it are heard. Until it says the same again: while it is told, the event of a newer
        one may come before it."""
        told: dict[TopicPartition, int] | None = None
        while (last := query.lastProgress) is not None and (ends := ends_of(last)) != told:
            self._tell(str(query.runId), last)
            told = ends

    def follows(self, run_id: str) -> bool:
        return run_id in self._groups

    def ended(self, query: "StreamingQuery") -> bool:
        """To be called where the query has ended, because Spark may tell of the last batch later than that."""
        self._tell(str(query.runId), query.lastProgress)
        found = self._groups.pop(str(query.runId), None)
        return found is None or found.close()

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        self._tell(str(event.progress.runId), event.progress)

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        found = self._groups.get(str(event.runId))
        if found is not None:
            found.close(timeout_s=0)  # it commits what is left by itself; who calls `ended` waits for that

    @property
    def _jlistener(self) -> Any:
        """What Spark adds to a session that has its JVM here. (That of Spark Connect asks for none.)"""
        from pyspark import SparkContext

        if not hasattr(self, "_jlistenerobj"):
            jvm: Any = SparkContext._jvm
            self._jlistenerobj = jvm.PythonStreamingQueryListenerWrapper(_OfTheJvm(self))
        return self._jlistenerobj

    def _tell(self, run_id: str, progress: Any) -> None:
        group = self._groups.get(run_id)
        if group is not None and progress is not None:
            group.tell(ends_of(progress))


class _OfTheJvm(JStreamingQueryListener):
    """Told by the JVM, it asks for what is needed alone. PySpark's own asks for each field of a progress by itself, for each batch
    of each query of the session: a fifth of what the JVM of three queries took for their first fifty batches.
    """

    pylistener: GroupListener

    def onQueryProgress(self, jevent: Any) -> None:
        progress = jevent.progress()
        run_id = progress.runId().toString()
        if self.pylistener.follows(run_id):
            self.pylistener._tell(run_id, json.loads(progress.json()))

    def onQueryIdle(self, jevent: Any) -> None:
        pass


def commit_group(
    spark: "SparkSession", query: "StreamingQuery", *, bootstrap: str, group: str
) -> GroupListener:
    """From now on the group shows where the query stands."""
    listener = GroupListener()
    listener.follow(query, bootstrap, group)
    spark.streams.addListener(listener)
    listener.look(query)
    return listener
