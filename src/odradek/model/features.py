"""Features of KIP-584 that this release knows, each with its lowest and highest level."""

from collections.abc import Mapping

TRANSACTION_VERSION = "transaction.version"
SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = {TRANSACTION_VERSION: (0, 2)}
HIGHEST_LEVELS: Mapping[str, int] = {name: highest for name, (_, highest) in SUPPORTED_FEATURES.items()}
