"""UpdateFeatures (key 57), versions 0-1. Only the controller answers; others NOT_CONTROLLER.

Raises, lowers or takes out finalised features in `/feature`, each with an answer of its own: those that cannot be are
refused and the others written. A level that a registered broker does not know is refused.

v0 the first (KIP-584).
v1 upgrade type in place of the downgrade flag, validate only (KIP-778).
"""

from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.effects import (
    ConfigsWritten,
    FeaturesRead,
    ReadFeatures,
    StoreFailed,
    StoreResult,
    WriteFeatures,
)
from odradek.broker.features import SAFE_DOWNGRADE, UPGRADE, change, check_members
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

ATTEMPTS = 5


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = UpdateFeaturesRequest.decode(version, request.body, budget=request.budget)
    if not broker.is_controller:
        return Reply(
            [UpdateFeaturesResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message=None).encode(version)]
        )
    update = _Update(broker, asked, version)
    update.begin()
    return update.park


class _Update:
    """One request, from the question to the store on. Functions that call each other would keep it until a collector of cycles comes."""

    __slots__ = ("_asked", "_attempts", "_broker", "_version", "park")

    def __init__(self, broker: "Broker", asked: UpdateFeaturesRequest, version: int) -> None:
        self.park = Park()
        self._broker = broker
        self._asked = asked
        self._version = version
        self._attempts = 0

    def begin(self) -> None:
        self._attempts += 1
        self._broker.ask_store(ReadFeatures(), self._read)

    def _read(self, result: StoreResult, later_ms: int) -> None:
        if not isinstance(result, FeaturesRead):
            self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR, _reason(result))
            return
        features = dict(result.features)
        rows = []
        for update in self._asked.feature_updates:
            row = UpdatableFeatureResult(feature=update.feature, error_message=None)
            upgrade_type = update.upgrade_type
            if self._version == 0:
                upgrade_type = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
            try:
                changed = change(features, update.feature, update.max_version_level, upgrade_type)
                check_members(update.feature, update.max_version_level, result.members)
                features = changed
            except ProtocolError as refusal:
                row.error_code, row.error_message = refusal.code, refusal.message
            rows.append(row)
        if self._asked.validate_only or features == result.features:
            self._done(rows)
        else:
            self._broker.ask_store(WriteFeatures(features, result.version), partial(self._written, rows))

    def _written(self, rows: list[UpdatableFeatureResult], outcome: StoreResult, later_ms: int) -> None:
        if not isinstance(outcome, ConfigsWritten):
            self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR, _reason(outcome))
        elif outcome.outcomes == ("stored",):
            self._done(rows)
        elif self._attempts < ATTEMPTS:
            self.begin()
        else:
            self._refuse(ErrorCode.FEATURE_UPDATE_FAILED, "others keep changing /feature; try again")

    def _done(self, rows: list[UpdatableFeatureResult]) -> None:
        self._answer(UpdateFeaturesResponse(error_message=None, results=rows))

    def _refuse(self, code: ErrorCode, message: str) -> None:
        self._answer(UpdateFeaturesResponse(error_code=code, error_message=message))

    def _answer(self, response: UpdateFeaturesResponse) -> None:
        self.park.answer(lambda: Reply([response.encode(self._version)]))


def _reason(result: StoreResult) -> str:
    return result.reason if isinstance(result, StoreFailed) else "the store answered something else"
