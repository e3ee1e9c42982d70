"""ConsumerGroupHeartbeat (KIP-848): joins, keeps a session, says what a member owns, tells it what to have, and leaves.

epoch 0    joins, or comes back after it was fenced
epoch > 0  the one the member was told last; the one before if that answer was lost
epoch -1   leaves; -2: a static member leaves and will be back within its session
"""

from base64 import urlsafe_b64encode
from hashlib import blake2b

from odradek.coordinator.consumer_group import ConsumerGroup
from odradek.coordinator.consumer_image import ConsumerImage
from odradek.coordinator.consumer_leaving import draft_of_leave
from odradek.coordinator.consumer_records import (
    NOTHING,
    Assignment,
    Current,
    CurrentRecord,
    MemberRecord,
    MemberState,
    Subscriber,
    TargetRecord,
)
from odradek.coordinator.draft import Draft, NoMemory
from odradek.coordinator.events import Asked
from odradek.coordinator.reconciling import is_same, is_subset
from odradek.coordinator.shard import Shard
from odradek.coordinator.topic_patterns import InvalidPattern
from odradek.coordinator.turns import Turn, renew_session, take_turn
from odradek.coordinator.upgrading import upgrade
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.messages.consumer_group_heartbeat import (
    Assignment as AssignmentMessage,
)
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN, LEAVE, LEAVE_TO_RETURN = 0, -1, -2
UNKNOWN_TIMEOUT = -1
FIRST_WITH_MEMBERS_OWN_ID = 1


def heartbeat_refused(error: ErrorCode, why: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=why)


def consumer_heartbeat(
    shard: Shard, asked: Asked, request: ConsumerGroupHeartbeatRequest, now_ms: int
) -> None:
    try:
        _check(shard, asked, request)
        if request.member_epoch < JOIN:
            _leave(shard, asked, request, now_ms)
        else:
            _beat(shard, asked, request, now_ms)
    except ProtocolError as refusal:
        shard.answer(asked.call, heartbeat_refused(refusal.code, str(refusal)))


def _refused(error: ErrorCode, why: str) -> ProtocolError:
    return ProtocolError(error, why)


# ------------------------------------------------------------------------------------- what a request may say


def _check(shard: Shard, asked: Asked, request: ConsumerGroupHeartbeatRequest) -> None:
    why = _why_invalid(asked, request)
    if why is not None:
        raise _refused(ErrorCode.INVALID_REQUEST, why)
    known = shard.settings.consumer_assignors
    if request.server_assignor is not None and request.server_assignor not in known:
        why = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(known)}."
        raise _refused(ErrorCode.UNSUPPORTED_ASSIGNOR, why)


def _why_invalid(asked: Asked, request: ConsumerGroupHeartbeatRequest) -> str | None:
    if not request.group_id:
        return "GroupId can't be empty."
    if not request.member_id and (asked.version >= FIRST_WITH_MEMBERS_OWN_ID or request.member_epoch != JOIN):
        return "MemberId can't be empty."
    if request.instance_id == "":
        return "InstanceId can't be empty."
    if request.rack_id == "":
        return "RackId can't be empty."
    if request.member_epoch < LEAVE_TO_RETURN:
        return "MemberEpoch is invalid."
    if request.member_epoch == LEAVE_TO_RETURN and request.instance_id is None:
        return "InstanceId can't be null."
    if request.member_epoch == JOIN:
        return _why_no_join(request)
    return None


def _why_no_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == UNKNOWN_TIMEOUT:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None


# -------------------------------------------------------------------------------------------------- alive


def _beat(shard: Shard, asked: Asked, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> None:
    draft = Draft(shard, request.group_id, now_ms)
    if draft.group is None:
        _begin(draft, request)
    owned = _owned(request)
    member_id = request.member_id or short_id(asked.unique)
    member_id, before = _member(draft, request, member_id, owned)
    if draft.group is not None:
        renew_session(shard, draft.group, member_id, now_ms)  # it lives, whatever becomes of what it asks for
    subscriber = _subscriber(asked, request, draft.image.members.get(member_id))
    try:
        is_changed = draft.subscribe(member_id, subscriber)
    except InvalidPattern as why:
        text = f"SubscribedTopicRegex `{request.subscribed_topic_regex}` is not a valid regular expression: {why}."
        raise _refused(ErrorCode.INVALID_REGULAR_EXPRESSION, text) from None
    except NoMemory as why:
        # Java's consumer waits before it tries again; after COORDINATOR_NOT_AVAILABLE it does so at once.
        raise _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(why)) from None
    draft.move_epoch(is_changed=is_changed)
    draft.resolve_expressions()
    draft.retarget()
    if not draft.reconcile(member_id, owned):
        raise _refused(
            ErrorCode.FENCED_MEMBER_EPOCH, "The member must abandon all its partitions and rejoin."
        )
    after = draft.image.current_of(member_id)
    is_told = (
        request.member_epoch == JOIN or _is_full(request) or not is_same(before.assigned, after.assigned)
    )
    response = ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=shard.settings.consumer_heartbeat_interval_ms,
        assignment=_told(after.assigned) if is_told else None,
    )
    if draft.records or draft.asides:
        turn = Turn(request.group_id, draft.records, asked.call, response, heartbeat_refused)
        return take_turn(draft, turn)
    shard.answer(asked.call, response)
    return None


def _begin(draft: Draft, request: ConsumerGroupHeartbeatRequest) -> None:
    """There is no such group of the new protocol: it is made, or a classic one becomes one."""
    classic = draft.shard.groups.get(request.group_id)
    if request.member_epoch != JOIN:
        found = "not found" if classic is None else "is not a consumer group"
        raise _refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} {found}.")
    if classic is not None:
        upgrade(draft, classic)
    elif not draft.shard.has_room_to_keep(request.group_id, 0, draft.now_ms):
        why = "Groups and their offsets take as much memory of this broker as they may."
        raise _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, why)


def _owned(request: ConsumerGroupHeartbeatRequest) -> Assignment | None:
    if request.topic_partitions is None:
        return None
    found: dict[bytes, list[int]] = {}
    for one in request.topic_partitions:  # a topic may come twice
        found.setdefault(bytes(one.topic_id), []).extend(one.partitions)
    return {topic: tuple(partitions) for topic, partitions in found.items()}


def _member(
    draft: Draft, request: ConsumerGroupHeartbeatRequest, member_id: str, owned: Assignment | None
) -> tuple[str, Current]:
    """Who asks, and what it has; ProtocolError if that is nobody here, or somebody who was fenced."""
    image, epoch = draft.image, request.member_epoch
    if request.instance_id is not None:
        known = image.static_members.get(request.instance_id)
        if known is None and epoch != JOIN:
            why = f"Instance id {request.instance_id} is unknown."
            raise _refused(ErrorCode.UNKNOWN_MEMBER_ID, why)
        if known is not None and known != member_id:
            if epoch != JOIN:
                why = f"Static member {member_id} with instance id {request.instance_id} was fenced by member {known}."
                raise _refused(ErrorCode.FENCED_INSTANCE_ID, why)
            _check_released(image, request.instance_id, known, member_id)
            take_place(draft, known, member_id)
            return member_id, draft.image.current_of(member_id)
    if member_id not in image.members:
        if epoch != JOIN:
            why = f"Member {member_id} is not a member of group {draft.group_id}."
            raise _refused(ErrorCode.UNKNOWN_MEMBER_ID, why)
        if len(image.members) >= draft.shard.settings.consumer_max_size:
            why = f"The consumer group has reached its maximum capacity of {len(image.members)} members."
            raise _refused(ErrorCode.GROUP_MAX_SIZE_REACHED, why)
    current = image.current_of(member_id)
    if epoch != JOIN:
        _check_epoch(current, epoch, owned)
    elif current.epoch == LEAVE_TO_RETURN:  # a static member that kept its id
        back = current._replace(epoch=JOIN, previous_epoch=JOIN)
        draft.write(CurrentRecord(draft.group_id, member_id, back))
        return member_id, back
    return member_id, current


def _check_epoch(current: Current, epoch: int, owned: Assignment | None) -> None:
    if epoch > current.epoch:
        how = "greater"
    elif epoch < current.epoch and not (
        epoch == current.previous_epoch and is_subset(owned, current.assigned)
    ):
        how = "smaller"
    else:
        return
    why = (
        f"The consumer group member has a {how} member epoch ({epoch}) than the one known by the group coordinator "
        f"({current.epoch}). The member must abandon all its partitions and rejoin."
    )
    raise _refused(ErrorCode.FENCED_MEMBER_EPOCH, why)


def _check_released(image: ConsumerImage, instance_id: str, old_id: str, new_id: str) -> None:
    """An owner of the new protocol says when it goes. One of the classic protocol never does: it is known by who comes (KIP-345)."""
    current, subscriber = image.current_of(old_id), image.members[old_id]
    if current.epoch != LEAVE_TO_RETURN and subscriber.classic is None:
        why = (
            f"Static member {new_id} with instance id {instance_id} cannot join the group because the instance id is "
            f"owned by {old_id} member."
        )
        raise _refused(ErrorCode.UNRELEASED_INSTANCE_ID, why)


def take_place(draft: Draft, old_id: str, new_id: str) -> None:
    """A static member comes back under another id, with what the old one had."""
    image, group_id = draft.image, draft.group_id
    current, subscriber = image.current_of(old_id), image.members[old_id]
    target = image.target_of(old_id)
    draft.write(CurrentRecord(group_id, old_id, None))
    draft.write(TargetRecord(group_id, old_id, None))
    draft.write(MemberRecord(group_id, old_id, None))
    draft.write(MemberRecord(group_id, new_id, subscriber))
    draft.write(TargetRecord(group_id, new_id, target))
    has = Current(JOIN, JOIN, MemberState.STABLE, current.assigned, NOTHING)
    draft.write(CurrentRecord(group_id, new_id, has))


def _subscriber(
    asked: Asked, request: ConsumerGroupHeartbeatRequest, before: Subscriber | None
) -> Subscriber:
    """What is null or -1 is as it was."""
    names, regex, timeout_ms = (
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.rebalance_timeout_ms,
    )
    if before is None:
        before = Subscriber(None, None, "", "", (), "", UNKNOWN_TIMEOUT, None)
    return Subscriber(
        request.instance_id if request.instance_id is not None else before.instance_id,
        request.rack_id if request.rack_id is not None else before.rack_id,
        asked.client.client_id,
        asked.client.host,
        tuple(sorted(set(names))) if names is not None else before.topics,
        regex if regex is not None else before.regex,
        timeout_ms if timeout_ms != UNKNOWN_TIMEOUT else before.rebalance_timeout_ms,
        request.server_assignor if request.server_assignor is not None else before.assignor,
    )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """All that a member says after a disconnection: it may have missed what it was told."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return (
        request.rebalance_timeout_ms != UNKNOWN_TIMEOUT
        and subscribes
        and request.topic_partitions is not None
    )


def _told(assigned: Assignment) -> AssignmentMessage:
    return AssignmentMessage(
        topic_partitions=[
            TopicPartitions(topic_id=topic, partitions=list(partitions))
            for topic, partitions in assigned.items()
        ]
    )


def short_id(unique: str) -> str:
    """22 letters, as Apache Kafka gives to members of groups of the new protocol."""
    return urlsafe_b64encode(blake2b(unique.encode(), digest_size=16).digest()).decode().rstrip("=")


# ------------------------------------------------------------------------------------------------- leaving


def _leave(shard: Shard, asked: Asked, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> None:
    group = shard.consumer_groups.get(request.group_id)
    if group is None:
        found = "not found" if request.group_id not in shard.groups else "is not a consumer group"
        raise _refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {found}.")
    member_id = _leaver(group, request)
    response = ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)
    if request.member_epoch == LEAVE:
        draft, becomes = draft_of_leave(shard, group, [member_id], now_ms)
    else:
        draft, becomes = Draft(shard, group.group_id, now_ms), None
        current = group.image.current_of(member_id)
        away = current._replace(epoch=LEAVE_TO_RETURN, revoking=NOTHING)
        if away != current:
            draft.write(CurrentRecord(group.group_id, member_id, away))
    turn = Turn(group.group_id, draft.records, asked.call, response, heartbeat_refused, becomes=becomes)
    take_turn(draft, turn)


def _leaver(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> str:
    image, member_id = group.image, request.member_id
    if request.instance_id is not None:
        known = image.static_members.get(request.instance_id)
        if known is None:
            why = f"Instance id {request.instance_id} is unknown."
            raise _refused(ErrorCode.UNKNOWN_MEMBER_ID, why)
        if known != member_id:
            why = f"Static member {member_id} with instance id {request.instance_id} was fenced by member {known}."
            raise _refused(ErrorCode.FENCED_INSTANCE_ID, why)
    elif member_id not in image.members:
        why = f"Member {member_id} is not a member of group {group.group_id}."
        raise _refused(ErrorCode.UNKNOWN_MEMBER_ID, why)
    return member_id
