"""One change of the code for each behaviour, that must turn a test of it red. Run by `python -m tests.behaviours`."""

from tests.mutations.data_path import OF_OTHER_ROOMS
from tests.mutations.mutation import Mutation as Mutation
from tests.mutations.operations import OF_OPERATIONS
from tests.mutations.partitions import OF_PARTITIONS
from tests.mutations.replicas import OF_REPLICAS

MUTATIONS = OF_PARTITIONS + OF_REPLICAS + OF_OPERATIONS + OF_OTHER_ROOMS
