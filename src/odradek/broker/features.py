"""Finalised features (KIP-584): levels all members agree on, kept in `/feature`.

`transaction.version` is the one that is known here: 1 writes records of transactions that newer software may extend, 2
offers clients what raises the epoch at each end of a transaction (KIP-890). A cluster that is made with a store of its
own begins with 2. In any other it is finalised by UpdateFeatures, and only while every registered broker says that it
knows the level: an Apache broker of 3.9, which does not, exits on it. What somebody else finalised is reported, and can
be taken out again.
"""

from collections.abc import Mapping

from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.features import SUPPORTED_FEATURES, TRANSACTION_VERSION

# The level from which on the broker adds partitions to a transaction itself, and each end raises the epoch.
ADDS_AND_BUMPS = 2

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def change(
    features: Mapping[str, int],
    name: str,
    level: int,
    upgrade_type: int,
    supported: Mapping[str, tuple[int, int]] | None = None,
) -> dict[str, int]:
    """The features with this one raised, lowered, or (level 0) taken out; ProtocolError says why not.

    `supported` is this broker's table unless a test brings its own.
    """
    table = SUPPORTED_FEATURES if supported is None else supported

    def refused(why: str) -> ProtocolError:
        return ProtocolError(ErrorCode.INVALID_REQUEST, why)

    if not name:
        raise refused("Feature name can not be empty.")
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise refused(f"Unknown upgrade type {upgrade_type}; 1, 2 and 3 are known.")
    lowers = upgrade_type != UPGRADE
    present = features.get(name)
    if level < 1:
        if not lowers:
            raise refused(
                f"Can not provide versionLevel: {level} less than 1 without setting the SAFE downgradeType in the "
                "request."
            )
        if present is None:
            raise refused("Can not delete non-existing finalized feature.")
        return {other: kept for other, kept in features.items() if other != name}
    if name not in table:
        raise refused(
            "Could not apply finalized feature update because the provided feature is not supported."
        )
    lowest, highest = table[name]
    if not lowest <= level <= highest:
        raise refused(
            f"Could not apply finalized feature update because the provided maxVersionLevel:{level} lies outside "
            f"{lowest} to {highest}."
        )
    if lowers and present is None:
        raise refused(f"Can not downgrade feature {name}, which is not finalized.")
    if present is not None and lowers and level > present:
        raise refused(
            "When the allowDowngrade flag set in the request, the provided "
            f"maxVersionLevel:{level} can not be greater than existing maxVersionLevel:{present}."
        )
    if present is not None and not lowers and level < present:
        raise refused(
            f"Can not downgrade finalized feature from existing maxVersionLevel:{present} to provided "
            f"maxVersionLevel:{level} without setting the allowDowngrade flag in the request."
        )
    return {**features, name: level}


def level_of_transactions(finalised: Mapping[str, int]) -> int:
    """Of `transaction.version`; what is beyond the highest known here acts as that."""
    lowest, highest = SUPPORTED_FEATURES[TRANSACTION_VERSION]
    return min(max(finalised.get(TRANSACTION_VERSION, lowest), lowest), highest)


def check_members(name: str, level: int, members: Mapping[int, Mapping[str, int]]) -> None:
    """ProtocolError if a registered broker does not say that it knows the level. `members`: of each the highest level by
    feature."""
    without = sorted(broker for broker, highest in members.items() if highest.get(name, 0) < level)
    if without:
        named = ", ".join(map(str, without))
        raise ProtocolError(
            ErrorCode.INVALID_REQUEST,
            f"Could not apply finalized feature update because brokers do not support {name} {level}: {named}.",
        )
