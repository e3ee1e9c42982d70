"""What a broker wants from the shell around it. `Broker.take_effects()` drains them; nothing here waits.

The shell drains after every call into the broker and does what stands there. What carries a `request_id` is answered
once, by `broker.answered(request_id, result, now_ms)`:

| effect | result |
|---|---|
| `SendToController` | the decoded response; None: could not be delivered, or was not answered |
| `SendToBroker` | the same |
| `ControllerRequest` | a `ControllerAnswer` |
| `StoreRequest` | a `StoreResult` |
| `FlushLog` | `Flushed` |
| `ReadSlices` | bytes; None where they could not be read |
| `RunAside` | what the work returned; None where it failed |
| `LoggersAsked` | the level of every logger, by name |
| `PollConnections` | None |

The others:

| effect | followed by |
|---|---|
| `StartFetcher`, `StopFetcher`, `WakeFetcher` | the fetcher's own methods, see `replication.follower` |
| `CheckpointHighWatermarks` | nothing: done in a thread, failures are log lines |
| `RegisterAgain` | `broker.registered(broker_epoch, now_ms)` |
| `HandleAgain` | `broker.handle(request, now_ms)`, whose answer `place` gets |
| `GoOn` | `broker.go_on(now_ms)`, until it says False |
| `LogDirectoryFailed`, `LogLine`, `StateChangeLine` | nothing |

Requests carry ids and no functions, so that an effect can be printed, compared and stored. They are
NamedTuples because a broker that starts has to make all these classes, and a dataclass takes four times as
long; told apart by their type, never by their contents.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.log.steps import Work
from odradek.model.cluster import Endpoint
from odradek.model.controller_requests import ControllerAsk
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import (
    BrokerId,
    ControllerEpoch,
    TopicId,
    TopicPartition,
)

if TYPE_CHECKING:
    from odradek.broker.answers import Park
    from odradek.broker.request import HeldRequest
    from odradek.log.files import FileSlice
    from odradek.log.flushing import FlushPlan
    from odradek.log.partition_log import PartitionLog
    from odradek.replication.follower import FollowerFetcher

# -------------------------------------------------------------------------------- to the controller, by wire


class SendToController(NamedTuple):
    """A request for whichever broker is controller now (possibly this one), over the inter-broker listener.

    `message` is an `odradek.protocol.messages` request; its version is negotiated, at most `max_version`.
    The shell does not retry: an undeliverable request is answered None, and the broker asks again.
    """

    request_id: int
    api_key: int
    message: Any
    max_version: int


class SendToBroker(NamedTuple):
    """A request for another broker at its inter-broker listener, in this version. The shell does not retry."""

    request_id: int
    broker: BrokerId
    endpoint: Endpoint
    api_key: int
    version: int
    message: Any


# ------------------------------------------------------------- to the controller in this process, as values


class ControllerRequest(NamedTuple):
    """Something a peer asked of the controller that lives in this process."""

    request_id: int
    ask: ControllerAsk


# ------------------------------------------------------------------------------------------------ the store


class NewTopic(NamedTuple):
    """`/config/topics/<t>` first, then `/brokers/topics/<t>`, as Apache's brokers do (tests/golden/controller)."""

    topic: str
    topic_id: TopicId
    assignment: Mapping[int, tuple[BrokerId, ...]]
    config: Mapping[str, str] = {}


class CreateTopics(NamedTuple):
    """One answer per topic in `TopicsWritten`: NONE, or TOPIC_ALREADY_EXISTS, also while its deletion is not done."""

    topics: tuple[NewTopic, ...]


class DeleteTopics(NamedTuple):
    """Create `/admin/delete_topics/<t>` for each. Already there: NONE. `ids`: of those that were named by them; a topic
    that has another one by now is spared, UNKNOWN_TOPIC_ID."""

    topics: tuple[str, ...]
    ids: Mapping[str, TopicId] = {}


class AddPartitions(NamedTuple):
    """Add these partitions to `/brokers/topics/<topic>`, leaving the others as they stand there.

    A partition that is there already, or would stand behind a gap: INVALID_PARTITIONS for the topic.
    """

    topic: str
    assignment: Mapping[int, tuple[BrokerId, ...]]


class TopicsWritten(NamedTuple):
    """The answer to `CreateTopics`, `DeleteTopics` and `AddPartitions`: an error and a sentence per topic."""

    results: Mapping[str, tuple[ErrorCode, str]]


class ReadConfigs(NamedTuple):
    """`/config/<kind>/<name>` of each (kind, name); kind is topics, brokers, users, clients or ips, the name as
    in the path. Answer: `ConfigsRead`."""

    entities: tuple[tuple[str, str], ...]


class ListConfigs(NamedTuple):
    """All there are of these kinds, those of clients of one user too. Answer: `ConfigsRead`."""

    kinds: tuple[str, ...]


class StoredConfig(NamedTuple):
    """`version` is the node's, -1 if there is no node."""

    overrides: Mapping[str, str]
    version: int


class ConfigsRead(NamedTuple):
    """`unreadable`: nodes whose value is none, and why; they stand in `configs` too, without overrides."""

    configs: Mapping[tuple[str, str], StoredConfig]
    unreadable: Mapping[tuple[str, str], str] = {}


class ConfigWrite(NamedTuple):
    """Replace the overrides of one entity, if its node still has `expected_version` (-1: no node)."""

    kind: str
    name: str
    overrides: Mapping[str, str]
    expected_version: int


class WriteConfigs(NamedTuple):
    """Each write is followed by its `/config/changes/config_change_N`. Answer: `ConfigsWritten`."""

    writes: tuple[ConfigWrite, ...]


class ConfigsWritten(NamedTuple):
    """One outcome per write, in order: `stored`, `conflict` (read again), or a sentence that says why not."""

    outcomes: tuple[str, ...]


class ReadFeatures(NamedTuple):
    """The node `/feature`, and what the registered brokers support. Answer: `FeaturesRead`."""


class FeaturesRead(NamedTuple):
    """Finalised features by name, with the level that is in force; `version` is the node's, -1 if there is none.
    `members`: of each registered broker the highest level of each feature it says it knows."""

    features: Mapping[str, int]
    version: int
    members: Mapping[int, Mapping[str, int]] = {}


class WriteFeatures(NamedTuple):
    """Answer: `ConfigsWritten` with one outcome."""

    features: Mapping[str, int]
    expected_version: int


class ReadControlEpochs(NamedTuple):
    """Which controller epoch leads. `claimed`: the largest that somebody says he leads in; that it is not there must be
    proved. Answer: `ControlEpochs`."""

    claimed: ControllerEpoch


class ControlEpochs(NamedTuple):
    """`controller` was elected in that epoch; None where nobody holds `/controller` now."""

    controller_epoch: ControllerEpoch
    controller: BrokerId | None


class StoreFailed(NamedTuple):
    """The store could not be asked, whatever the request was."""

    reason: str


StoreQuestion = (
    CreateTopics
    | DeleteTopics
    | AddPartitions
    | ReadConfigs
    | ListConfigs
    | WriteConfigs
    | ReadFeatures
    | WriteFeatures
    | ReadControlEpochs
)
StoreResult = TopicsWritten | ConfigsRead | ConfigsWritten | FeaturesRead | ControlEpochs | StoreFailed


class StoreRequest(NamedTuple):
    request_id: int
    question: StoreQuestion


# ----------------------------------------------------------------------------------------------- replication


class StartFetcher(NamedTuple):
    """Connect to `endpoint` and move frames for `fetcher` until `StopFetcher` for the same leader."""

    leader: BrokerId
    endpoint: Endpoint
    fetcher: "FollowerFetcher"


class StopFetcher(NamedTuple):
    leader: BrokerId


class WakeFetcher(NamedTuple):
    """The fetcher has something to send that it had not when it was last asked."""

    leader: BrokerId


# ------------------------------------------------------------------------------------------------------ disk


class FlushLog(NamedTuple):
    """Group commit: `plan.run()` in a thread; what it covers may then be acknowledged. Answered by `Flushed`.

    Several of one turn may run one after the other in the same thread. An error is never tried again.
    """

    request_id: int
    topic_partition: TopicPartition
    log: "PartitionLog"  # until it is flushed, the partition may have got another
    plan: "FlushPlan"


class Flushed(NamedTuple):
    """`plan` is the one that was run: another flush of the log may have gone before. `error` None, or what failed."""

    plan: "FlushPlan"
    error: str | None


class ReadSlices(NamedTuple):
    """Read these in a thread. `log` and `offset`: where they begin. Answered by the bytes, or None."""

    request_id: int
    topic_partition: TopicPartition
    log: "PartitionLog"
    offset: int
    slices: "list[FileSlice]"


class RunAside(NamedTuple):
    """`work.run()` in a thread."""

    request_id: int
    work: Work


class CheckpointHighWatermarks(NamedTuple):
    """Every hosted replica's high watermark, for `replication-offset-checkpoint` (behaviour 136)."""

    high_watermarks: Mapping[TopicPartition, int]
    said_at: int  # how many cuts of logs there were then (`LogManager.cuts`)


class LogDirectoryFailed(NamedTuple):
    """Write `/log_dir_event_notification/log_dir_event_N`: the controller asks about our replicas again."""

    directory: str


# ------------------------------------------------------------------------------------------------- for people


class LogLine(NamedTuple):
    level: str  # "info" | "warning" | "error"
    text: str
    # Somebody outside can bring it about as often as he likes: said once in a while for each key, as a warning.
    key: str = ""


class LoggersAsked(NamedTuple):
    """Which loggers this process has, after their levels were set: by name a level's, None back to what the
    logger above says. Answered by the level of every logger.
    """

    request_id: int
    levels: Mapping[str, str | None] = {}


class StateChangeLine(NamedTuple):
    """A line of the state-change log as a broker writes it (Apache's `state.change.logger`)."""

    level: str
    text: str


class RegisterAgain(NamedTuple):
    """Take our node in /brokers/ids away and make it anew in one transaction: the controller sees a broker that
    was restarted, and raises the leader epochs of what it leads."""

    reason: str


class GoOn(NamedTuple):
    """What takes long is done in slices, so that everybody else is served in between (`control_queue`, `slices`)."""


class PollConnections(NamedTuple):
    """Poll every socket once more, and report the connections that were closed. Answered by None after that."""

    request_id: int


class HandleAgain(NamedTuple):
    """A request that was held: handle it now, `place` is where its answer goes."""

    request: "HeldRequest"
    place: "Park"


Effect = (
    SendToController
    | SendToBroker
    | ControllerRequest
    | StoreRequest
    | StartFetcher
    | StopFetcher
    | WakeFetcher
    | FlushLog
    | ReadSlices
    | RunAside
    | CheckpointHighWatermarks
    | LogDirectoryFailed
    | RegisterAgain
    | LogLine
    | LoggersAsked
    | StateChangeLine
    | GoOn
    | PollConnections
    | HandleAgain
)
