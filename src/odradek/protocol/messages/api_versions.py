"""ApiVersions (key 18), versions 0-4.

Which keys and versions the broker serves; the first request of most clients.
A version the broker does not know is answered in version 0, UNSUPPORTED_VERSION, with the one range of this
key (KIP-511). The header of the answer is always version 0, so that a client which does not know the
version can read it.
v1 throttle time. v2 answers before it throttles. v3 flexible, name and version of the client (KIP-511),
features in tags (KIP-584). v4 the lowest version of a supported feature may be 0 (KAFKA-17011).
"""

from odradek.protocol.fields import Struct, array, boolean, int16, int32, int64, string
from odradek.protocol.schema import Request, Response


class ApiVersionsRequest(Request, key=18, versions="0-4", flexible="3+"):
    client_software_name: str = string("3+")
    client_software_version: str = string("3+")


class ApiVersion(Struct):
    api_key: int = int16("0+")
    min_version: int = int16("0+")
    max_version: int = int16("0+")


class SupportedFeatureKey(Struct):
    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


class FinalizedFeatureKey(Struct):
    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


class ApiVersionsResponse(Response, key=18, versions="0-4", flexible="3+"):
    error_code: int = int16("0+")
    api_keys: list[ApiVersion] = array(ApiVersion, "0+")
    throttle_time_ms: int = int32("1+")
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0)
    finalized_features_epoch: int = int64("3+", tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2)
    zk_migration_ready: bool = boolean("3+", tag=3)
