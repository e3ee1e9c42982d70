"""UpdateFeatures (key 57), versions 0-1. Only the controller answers; others NOT_CONTROLLER.

Raises, lowers or takes out finalised features in `/feature`, each with an answer of its own: those that cannot be are
refused and the others written. A level that a registered broker does not know is refused.

v0 the first (KIP-584).
v1 upgrade type in place of the downgrade flag, validate only (KIP-778).
"""

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
    park = Park()
    attempts = 0

    def refuse(code: ErrorCode, message: str) -> None:
        park.answer(
            lambda: Reply([UpdateFeaturesResponse(error_code=code, error_message=message).encode(version)])
        )

    def done(rows: list[UpdatableFeatureResult]) -> None:
        park.answer(lambda: Reply([UpdateFeaturesResponse(error_message=None, results=rows).encode(version)]))

    def read(result: StoreResult, later_ms: int) -> None:
        if not isinstance(result, FeaturesRead):
            refuse(ErrorCode.UNKNOWN_SERVER_ERROR, _reason(result))
            return
        features = dict(result.features)
        rows = []
        for update in asked.feature_updates:
            row = UpdatableFeatureResult(feature=update.feature, error_message=None)
            upgrade_type = update.upgrade_type
            if version == 0:
                upgrade_type = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
            try:
                changed = change(features, update.feature, update.max_version_level, upgrade_type)
                check_members(update.feature, update.max_version_level, result.members)
                features = changed
            except ProtocolError as refusal:
                row.error_code, row.error_message = refusal.code, refusal.message
            rows.append(row)
        if asked.validate_only or features == result.features:
            done(rows)
            return

        def written(outcome: StoreResult, later_ms: int) -> None:
            if not isinstance(outcome, ConfigsWritten):
                refuse(ErrorCode.UNKNOWN_SERVER_ERROR, _reason(outcome))
            elif outcome.outcomes == ("stored",):
                done(rows)
            elif attempts < ATTEMPTS:
                start()
            else:
                refuse(ErrorCode.FEATURE_UPDATE_FAILED, "others keep changing /feature; try again")

        broker.ask_store(WriteFeatures(features, result.version), written)

    def start() -> None:
        nonlocal attempts
        attempts += 1
        broker.ask_store(ReadFeatures(), read)

    start()
    return park


def _reason(result: StoreResult) -> str:
    return result.reason if isinstance(result, StoreFailed) else "the store answered something else"
