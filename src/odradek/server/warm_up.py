"""What a broker will need in its first bad moment, got ready in a quiet one.

Codecs are compiled, and the controller's modules and most handlers imported, when they are first used. For a start that is
right. For a failover it is not: the survivors would spend the first tenth of a second reading Python files.
So once the broker serves, a thread does it. Afterwards no Python file is read any more (tests/server/test_warm_up.py): what
needs one would fail where there is no descriptor for it.
"""

from contextlib import suppress
from importlib import import_module

from odradek.broker.handlers.table import HANDLERS
from odradek.protocol.compiler import flat_codec
from odradek.protocol.messages import request_class, response_class

# In this order, behind everything else.
MODULES = (
    # A Fetch of very many partitions, batches that are compressed, and a setting whose name is misspelt.
    "odradek.broker.large_fetches",
    "zlib",
    "difflib",
    # What a controlled shutdown asks itself.
    "odradek.advisor.observed",
    "odradek.advisor.shutdown_impact",
    # A controller, and the words of its first step.
    "odradek.server.controller_term",
    "odradek.controller.journal_text",
    "odradek.controller.state_change_log",
)
# Extras.
IF_INSTALLED = ("cramjam",)

# What brokers say to each other: api key and version.
_BETWEEN_BROKERS = (
    (4, 7),  # LeaderAndIsr
    (6, 8),  # UpdateMetadata
    (5, 4),  # StopReplica
    (56, 3),  # AlterPartition
    (67, 0),  # AllocateProducerIds
    (7, 3),  # ControlledShutdown
    (2, 9),  # ListOffsets
    (23, 4),  # OffsetForLeaderEpoch
    (18, 0),  # ApiVersions
)


def warm_up() -> None:
    for key, version in _BETWEEN_BROKERS:
        for message in (request_class(key)(), response_class(key)()):
            type(message).decode(version, message.encode(version))
    for key, handler in HANDLERS.items():
        for message_class in (request_class(key), response_class(key)):
            if message_class.IS_FLAT:
                flat_codec(message_class)
        if isinstance(handler, str):  # imported when it is asked for
            import_module(f"odradek.broker.handlers.{handler}")
    for name in IF_INSTALLED:
        with suppress(ModuleNotFoundError):
            import_module(name)
    for name in MODULES:
        import_module(name)
