"""Who may commit and read offsets of a group of KIP-848: a member, in the epoch it has; or anybody while it is empty.

A member that has yet to let go of partitions keeps its epoch, and commits with it what it has read of them.
"""

from odradek.coordinator.consumer_group import ConsumerGroup
from odradek.coordinator.consumer_image import ConsumerImage
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

FIRST_WITH_MEMBER_EPOCHS = 9


def why_no_commit(group: ConsumerGroup, request: OffsetCommitRequest, version: int) -> ErrorCode:
    image, epoch = group.image, request.generation_id_or_member_epoch
    if group.is_dead:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if epoch < 0 and not image.members:
        return ErrorCode.NONE  # an administrator, or a consumer that manages itself
    subscriber = image.members.get(request.member_id)
    if subscriber is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if subscriber.classic is None and version < FIRST_WITH_MEMBER_EPOCHS:
        return ErrorCode.UNSUPPORTED_VERSION
    return why_not_in_epoch(image, request.member_id, epoch)


def why_no_commit_in_transaction(group: ConsumerGroup, request: TxnOffsetCommitRequest) -> ErrorCode:
    """A producer that names no member is believed: it is fenced by its own epoch."""
    image, epoch = group.image, request.generation_id
    if group.is_dead:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if epoch < 0 and (not image.members or (not request.member_id and request.group_instance_id is None)):
        return ErrorCode.NONE
    error = why_not_in_epoch(image, request.member_id, epoch)
    return ErrorCode.ILLEGAL_GENERATION if error == ErrorCode.STALE_MEMBER_EPOCH else error


def why_no_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    return why_not_in_epoch(group.image, member_id or "", epoch)


def why_not_in_epoch(image: ConsumerImage, member_id: str, epoch: int) -> ErrorCode:
    subscriber = image.members.get(member_id)
    if subscriber is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch == image.current_of(member_id).epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if subscriber.classic is None else ErrorCode.ILLEGAL_GENERATION
