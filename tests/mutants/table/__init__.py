"""The one table of chosen mutations, by where they come from."""

from tests.mutants.table import kafka_controller, kafka_replication, kafka_storage, once_unseen, own
from tests.mutants.table.classic_groups import OF_CLASSIC_GROUPS, OF_OFFSETS
from tests.mutants.table.cleaner import OF_CLEANER
from tests.mutants.table.consumer_groups import OF_CONSUMER_GROUPS
from tests.mutants.table.controller_operations import OF_OPERATIONS
from tests.mutants.table.controller_partitions import OF_PARTITIONS
from tests.mutants.table.controller_replicas import OF_REPLICAS
from tests.mutants.table.coordinators import OF_TRANSACTIONS
from tests.mutants.table.other_rooms import OF_OTHER_ROOMS
from tests.mutants.table.searched import SEARCHED

# A test of each of their rows turns red (tests/behaviours.py).
OF_BEHAVIOURS = OF_PARTITIONS + OF_REPLICAS + OF_OPERATIONS + OF_OTHER_ROOMS
# The same of tests/coordinator/rows.py and tests/log/compaction/rows.py.
OF_COORDINATORS = OF_CLASSIC_GROUPS + OF_CONSUMER_GROUPS + OF_OFFSETS + OF_TRANSACTIONS
# The museum's (docs/museum.md).
EXHIBITS = (
    *kafka_replication.EXHIBITS,
    *kafka_controller.EXHIBITS,
    *kafka_storage.EXHIBITS,
    *own.EXHIBITS,
    *once_unseen.EXHIBITS,
)
TABLE = OF_BEHAVIOURS + OF_COORDINATORS + OF_CLEANER + EXHIBITS + SEARCHED
