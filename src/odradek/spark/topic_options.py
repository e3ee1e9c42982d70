"""The options of the sink into topics, under the names of Spark's own Kafka connector where it has them."""

import os
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from stat import S_ISDIR
from typing import NamedTuple

from odradek.client.sync_connection import parse_addresses
from odradek.model.errors import ConfigurationError
from odradek.model.ids import INT32_MAX, number_in
from odradek.spark.kill_switch import KillSwitch
from odradek.spark.offsets import LARGEST
from odradek.spark.options import NUMBER, ConnectionOptions, OptionReader
from odradek.spark.places import check_directory

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PROGRESS_TOPIC = "odradek-sinks"
# What the source takes and a sink has no use for: code that hands both the same options goes on working.
_USED = ("kafka.bootstrap.servers", "topic", "appId", "batchId", "directory", "progressTopic")
_INNER = ("killswitch", "decoded", "maxdeadletters", "deadletterstopic")  # what jobs of ours and tests say
_ACCEPTED = ("path", "checkpointLocation", "includeHeaders")
_KAFKA_USED = (
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.request.timeout.ms",
    "kafka.compression.type",
    "kafka.transaction.timeout.ms",
    "kafka.acks",
    "kafka.security.protocol",
)


class TopicOptions(NamedTuple):
    """What tasks and driver need; it travels with every task."""

    connection: ConnectionOptions
    topic: str | None  # None: the column `topic` says
    app_id: str
    directory: str  # where tasks leave what the driver sends; executors and driver share it
    codec: str = "none"
    timeout_ms: int | None = None  # of the transaction; None: by what there is to send
    progress_topic: str = PROGRESS_TOPIC
    is_named: bool = True  # False: nobody will ever give the batch again under this name
    batch_id: int = 0  # of a batch write
    kill_switch: KillSwitch = KillSwitch()
    is_decoded: bool = False  # values were decoded on the way, and tasks have left letters aside
    most_letters: str = ""
    letters_topic: str = (
        ""  # where letters go in the transaction of the batch; "" nowhere but into their table
    )
    checkpoint: str = ""  # of the query; "" of a batch write

    @property
    def transactional_id(self) -> str:
        return f"odradek:{self.app_id}"


def parse_topic_options(given: Mapping[str, str], *, is_stream: bool) -> TopicOptions:
    """TopicOptions, or a ConfigurationError that names the option, what stands there, and what would work."""
    options = OptionReader(given)
    of_users = {name: value for name, value in given.items() if name.lower() not in _INNER}
    OptionReader(of_users).refuse_unknown(_USED, _ACCEPTED, _KAFKA_USED, who="the sink into topics")
    connection = ConnectionOptions(
        bootstrap=options.required("kafka.bootstrap.servers", "the brokers as host:port,host:port"),
        client_id=options.text("kafka.client.id") or "odradek-spark",
        request_timeout_s=(options.positive("kafka.request.timeout.ms", INT32_MAX) or 30_000) / 1000,
    )
    parse_addresses(connection.bootstrap)
    acks = options.text("kafka.acks")
    if acks not in (None, "all", "-1"):
        raise ConfigurationError(f"kafka.acks={acks}: a transaction needs all of them")
    codec = (options.text("kafka.compression.type") or "none").lower()
    if codec not in CODECS:
        raise ConfigurationError(f"kafka.compression.type={codec}: there are {', '.join(CODECS)}")
    app_id = options.text("appId")
    if is_stream and not app_id:
        raise ConfigurationError("the option appId is missing: a name for this writer, of one checkpoint")
    return TopicOptions(
        connection,
        topic=options.text("topic") or None,
        app_id=app_id or uuid.uuid4().hex,
        directory=_directory(options, is_stream=is_stream),
        codec=codec,
        timeout_ms=options.positive("kafka.transaction.timeout.ms", INT32_MAX),
        progress_topic=options.text("progressTopic") or PROGRESS_TOPIC,
        is_named=bool(app_id),
        batch_id=_batch_id(options, is_stream=is_stream),
        kill_switch=KillSwitch.from_text(options.text("killSwitch")),
        is_decoded=options.text("decoded") == "true",
        most_letters=options.text("maxDeadLetters") or "",
        letters_topic=options.text("deadLettersTopic") or "",
        checkpoint=_checkpoint(options),
    )


def _directory(options: OptionReader, *, is_stream: bool) -> str:
    if given := options.text("directory"):
        check_directory(given, "the option directory", "tasks append to files that the driver sends")
        return os.path.abspath(given)
    if not is_stream:
        return _of_this_user()
    checkpoint = _checkpoint(options)
    if not checkpoint or ":" in checkpoint.partition("/")[0]:
        raise ConfigurationError(
            "the option directory is missing: where tasks leave what the driver sends, shared by both "
            "(with a checkpointLocation on a file system that is mounted it stands below that)"
        )
    return os.path.abspath(Path(checkpoint) / "odradek-sink")


def _checkpoint(options: OptionReader) -> str:
    return (options.text("checkpointLocation") or "").removeprefix("file:")


def _of_this_user() -> str:
    """Where everybody may write, nobody else may read or change what is on its way into a topic."""
    path = Path(tempfile.gettempdir()) / f"odradek-sink-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if found.st_uid != os.getuid() or not S_ISDIR(found.st_mode):
        raise ConfigurationError(f"{path} belongs to another process; name another with the option directory")
    return str(path)


def _batch_id(options: OptionReader, *, is_stream: bool) -> int:
    text, is_named = options.text("batchId"), bool(options.text("appId"))
    if text is None:
        if is_named and not is_stream:
            raise ConfigurationError(f"the option batchId is missing: {NUMBER}")
        return 0
    if is_stream or not is_named:
        raise ConfigurationError("batchId is for batch writes with an appId: a stream counts its own batches")
    number = number_in(text, LARGEST)
    if number is None:
        raise ConfigurationError(f"batchId={text!r}: expected a whole number")
    return number
