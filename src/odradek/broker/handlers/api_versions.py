"""ApiVersions (key 18), versions 0-4.

What this broker answers, straight from the table of handlers. Versions that belong to `transaction.version` 2 are
listed while that is finalised. A version we do not know is answered in version 0 with
UNSUPPORTED_VERSION and one entry, our range of this key (KIP-511): the client asks again.

v0 keys and their ranges.
v1 throttle time.
v2 the response leaves before the client is throttled (KIP-219).
v3 flexible, but for the header of the response; name and version of the client's software (KIP-511); features
   supported and finalised, the latter from `/feature` (KIP-584).
v4 a supported feature may begin at 0 (KAFKA-17011).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Reply
from odradek.broker.features import ADDS_AND_BUMPS
from odradek.model.error_codes import ErrorCode
from odradek.model.features import SUPPORTED_FEATURES
from odradek.model.settings import BrokerSettings
from odradek.protocol.api_keys import BELOW_TRANSACTION_VERSION_2, ApiKey
from odradek.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

FIRST_WITH_SOFTWARE = 3
# A client of version 3 fails at a feature whose lowest level is 0.
FIRST_WITH_LEVEL_0 = 4
OF_CONSUMER_GROUPS = frozenset((ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE))
_INNER = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = ApiVersionsRequest.decode(version, request.body, budget=request.budget)
    if version >= FIRST_WITH_SOFTWARE and not (
        _is_software_name(asked.client_software_name) and _is_software_name(asked.client_software_version)
    ):
        return Reply([ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST).encode(version)])
    key = "ApiVersions", version
    return Reply([broker.recall(key) or broker.remember(key, _encode(broker, version))])


def _encode(broker: "Broker", version: int) -> bytes:
    # Not known in the first moments of a broker. Whoever is told too few versions then keeps to them for as long as its
    # connection lives, and one that adds no partition by itself could write to no transaction over it.
    is_below = broker.features_epoch >= 0 and broker.transaction_version < ADDS_AND_BUMPS
    held_back = BELOW_TRANSACTION_VERSION_2 if is_below else {}
    lowest_shown = 0 if version >= FIRST_WITH_LEVEL_0 else 1
    rows = [
        ApiVersion(api_key=key, min_version=first, max_version=held_back.get(key, last))
        for key, (first, last) in sorted(broker.handlers.versions.items())
        if _is_offered(broker.settings, key)
    ]
    return ApiVersionsResponse(
        api_keys=rows,
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
            if low >= lowest_shown
        ],
        finalized_features_epoch=broker.features_epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(broker.finalized_features.items())
        ],
    ).encode(version)


def _is_offered(settings: BrokerSettings, key: int) -> bool:
    if key in OF_CONSUMER_GROUPS:
        return settings.offers_consumer_groups
    # Apache's brokers with ZooKeeper do not serve it, and a client that asks now one kind and now the other is to hear
    # the same.
    return key != ApiKey.DESCRIBE_TOPIC_PARTITIONS or settings.store_file is not None


def unsupported_version(broker: "Broker") -> Reply:
    first, last = broker.handlers.versions[ApiKey.API_VERSIONS]
    own = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=first, max_version=last)
    return Reply([ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own]).encode(0)])


def _is_software_name(text: str) -> bool:
    """Letters, digits, dots and dashes, the outer two letters or digits (KIP-511)."""
    return bool(text) and _INNER.issuperset(text) and text[0] not in ".-" and text[-1] not in ".-"
