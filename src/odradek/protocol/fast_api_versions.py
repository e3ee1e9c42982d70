"""ApiVersions (key 18): the answer of a broker changes only with the broker, so it is encoded once per version.

A client that asks in a version we do not know gets a version-0 body with UNSUPPORTED_VERSION and one entry,
our range of ApiVersions itself, and asks again (KIP-511).
"""

from collections.abc import Mapping

from odradek.model.error_codes import ErrorCode
from odradek.protocol.api_keys import APIS, ApiKey
from odradek.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

_FIRST, _LAST = APIS[ApiKey.API_VERSIONS].first_version, APIS[ApiKey.API_VERSIONS].last_version


class ApiVersionsAnswers:
    """What a broker says it serves: key -> lowest and highest version."""

    def __init__(self, served: Mapping[int, tuple[int, int]]) -> None:
        self._served = dict(sorted(served.items()))
        self._encoded: dict[int, bytes] = {}

    def encode(self, version: int, throttle_time_ms: int = 0) -> bytes:
        """The body. Its header is always of version 0, see `headers.response_header`."""
        if not _FIRST <= version <= _LAST:
            return self._refusal()
        if throttle_time_ms:
            return self._response(throttle_time_ms).encode(version)
        found = self._encoded.get(version)
        if found is None:
            found = self._encoded[version] = self._response(0).encode(version)
        return found

    def _response(self, throttle_time_ms: int) -> ApiVersionsResponse:
        entries = [
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self._served.items()
        ]
        return ApiVersionsResponse(api_keys=entries, throttle_time_ms=throttle_time_ms)

    def _refusal(self) -> bytes:
        low, high = self._served.get(ApiKey.API_VERSIONS, (_FIRST, _LAST))
        own = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=low, max_version=high)
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own]).encode(0)
