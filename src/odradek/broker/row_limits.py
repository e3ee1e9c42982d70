"""How many rows one request may have: as many as there can be reasons for.

A row costs two bytes on the wire and up to 7 us of the loop, whether it is obeyed or refused, so a request of a few
megabytes could keep everybody else waiting for seconds. Nobody has a reason to name much more than there is: what
a client asks about are partitions and topics that this broker knows, or new ones, of which one request makes few.

Nor are long names a reason for many bytes: 90 MB of them kept the loop for 120 to 370 ms, for they are made to strings, and said
again in the answer. What has payload is bounded by what a log takes of it.

Controllers may name what a broker does not know yet; theirs are bounded by ELEMENT_BUDGET alone, and obeyed in slices.
"""

from collections.abc import Sized

from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.produce_names import bytes_of_names
from odradek.broker.request import Request
from odradek.broker.topic_configs import TopicConfigs
from odradek.model.topic_names import GROUPS_TOPIC
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import ELEMENT_BUDGET, OBJECT_COST

# Whatever is known: some 30 ms of the dearest.
LEAST_ROWS = 5_000
# The assignment of a large topic, a row and its replicas for each partition; the members of a large group, one each.
LEAST_ROWS_OF_NEW = 20_000
OF_NEW = frozenset((ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.SYNC_GROUP, ApiKey.LEAVE_GROUP))
# A partition that is known is a row below its topic's; in these with a few more in it, its replicas or their epochs.
ROWS_OF_A_PARTITION = 2
ROWS_OF_ITS_REPLICAS = 8
WITH_REPLICAS = frozenset((ApiKey.ALTER_PARTITION, ApiKey.ALTER_PARTITION_REASSIGNMENTS))
# Fewer bytes than this have no more rows than LEAST_ROWS.
FEW_BYTES = 2 * LEAST_ROWS
OF_CONTROLLERS = frozenset((ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA))
# Of strings, some 30 ms with those of the answer.
LEAST_BYTES = 8 << 20
# That is known: what it takes in a request, with a name of a common length.
BYTES_OF_A_PARTITION = 128
# Commits are refused for each partition (`large_commits`).
OF_ANY_SIZE = OF_CONTROLLERS | {ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT}


class RowLimits:
    def __init__(self, metadata: MetadataCache, hosted: Sized, topic_configs: TopicConfigs) -> None:
        self._metadata = metadata
        self._topic_configs = topic_configs
        self._hosted = hosted  # partitions, perhaps not in the metadata yet
        self._epoch = -1
        self._known = 0

    def budget(self, request: Request) -> int:
        """Array elements, for the decoder of a request of FEW_BYTES or more."""
        if request.api_key in OF_CONTROLLERS:
            return ELEMENT_BUDGET
        each = ROWS_OF_ITS_REPLICAS if request.api_key in WITH_REPLICAS else ROWS_OF_A_PARTITION
        least = LEAST_ROWS_OF_NEW if request.api_key in OF_NEW else LEAST_ROWS
        rows = max(least, each * self._partitions())
        return min(rows * OBJECT_COST, ELEMENT_BUDGET)

    def check_size(self, request: Request) -> None:
        """MalformedMessage if there is no reason for so many bytes."""
        if request.api_key == ApiKey.PRODUCE:
            self._check_names(request)
        if request.api_key not in OF_ANY_SIZE:
            self.check_bytes(len(request.body))

    def check_bytes(self, size_bytes: int) -> None:
        most = self._most_bytes()
        if size_bytes > most:
            raise MalformedMessage(
                f"{size_bytes} bytes, more than there is a reason for: {most} for message.max.bytes and the partitions that are known"
            )

    def is_large(self, request: Request) -> bool:
        """Whether there is no reason for its bytes."""
        size_bytes = len(request.body)
        return size_bytes > LEAST_BYTES and size_bytes > self._most_bytes()

    def _most_bytes(self) -> int:
        # Members of groups bring what goes into one record, of which the topic of groups may take more than others.
        configs = self._topic_configs
        of_a_record: int = max(
            configs.settings.message_max_bytes, configs.settings_of(GROUPS_TOPIC).max_message_bytes
        )
        return max(LEAST_BYTES, of_a_record) + BYTES_OF_A_PARTITION * self._partitions()

    def _check_names(self, request: Request) -> None:
        most = LEAST_BYTES + BYTES_OF_A_PARTITION * self._partitions()
        named = bytes_of_names(request.api_version, request.body, request.budget // OBJECT_COST)
        if named > most:
            raise MalformedMessage(
                f"{named} bytes of names, more than there is a reason for: {most} for the partitions that are known"
            )

    def has_reason(self, partitions: int) -> bool:
        """Whether a fetch session may have so many: as many as one Fetch may name. Each of its fetches looks at all that are
        refused, however few bytes it has."""
        return partitions <= LEAST_ROWS or partitions <= ROWS_OF_A_PARTITION * self._partitions()

    def _partitions(self) -> int:
        metadata = self._metadata
        if metadata.epoch != self._epoch:
            self._epoch, self._known = metadata.epoch, metadata.partition_count
        return max(self._known, len(self._hosted))
