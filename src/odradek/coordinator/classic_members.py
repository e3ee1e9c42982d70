"""Members of the classic protocol in a group of KIP-848: JoinGroup, SyncGroup, Heartbeat and LeaveGroup of theirs.

Their generation is their member epoch. JoinGroup is their heartbeat: it says what they own, takes them a step on, and is
answered at once; SyncGroup tells what they have; Heartbeat says when there is something to learn by joining again.
"""

from odradek.coordinator.answers import join_refused, leavers_of, leavers_told, sync_refused
from odradek.coordinator.consumer_group import ConsumerGroup
from odradek.coordinator.consumer_heartbeats import short_id, take_place
from odradek.coordinator.consumer_image import ConsumerImage
from odradek.coordinator.consumer_leaving import draft_of_leave, how_many_leave
from odradek.coordinator.consumer_protocol import (
    Subscription,
    read_subscription,
    version_of,
    write_assignment,
)
from odradek.coordinator.consumer_records import ClassicMember, Current, MemberState, Subscriber
from odradek.coordinator.downgrading import downgrade, end_consumer_group, may_downgrade
from odradek.coordinator.draft import Draft
from odradek.coordinator.events import Asked
from odradek.coordinator.later import Later
from odradek.coordinator.member import Protocols
from odradek.coordinator.shard import Shard
from odradek.coordinator.subscription import CONSUMER
from odradek.coordinator.timers import Kind
from odradek.coordinator.turns import Turn, renew_session, take_turn
from odradek.coordinator.upgrading import by_id
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.protocol.schema import Response

FIRST_TO_ASK_FOR_AN_ID = 4
# Of those that leave together, by one turn of the group: more records than are appended in the turn that makes them.
MOST_LEAVING = 400


# -------------------------------------------------------------------------------------------------- joining


def begin_classic(shard: Shard, group: ConsumerGroup, asked: Asked, now_ms: int) -> bool:
    """Of an empty group that a classic member joins: it ends, and the request is looked at again when that is written."""
    if not group.is_empty:
        return False
    draft = Draft(shard, group.group_id, now_ms)
    end_consumer_group(draft)
    version = asked.version
    turn = Turn(group.group_id, draft.records, asked.call, None, lambda error: join_refused(version, error))
    turn.then = lambda: shard.wait(group.group_id, asked)
    take_turn(draft, turn)
    return True


def join_consumer_group(
    shard: Shard, group: ConsumerGroup, asked: Asked, request: JoinGroupRequest, now_ms: int
) -> None:
    if begin_classic(shard, group, asked, now_ms):
        return
    try:
        _join(shard, group, asked, request, now_ms)
    except ProtocolError as refusal:
        named = "" if refusal.code in _WITHOUT_ID else request.member_id
        shard.answer(asked.call, join_refused(asked.version, refusal.code, named))


_WITHOUT_ID = (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_MAX_SIZE_REACHED)


def _join(shard: Shard, group: ConsumerGroup, asked: Asked, request: JoinGroupRequest, now_ms: int) -> None:
    image, member_id = group.image, request.member_id
    settings = shard.settings
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        raise ProtocolError(ErrorCode.INVALID_SESSION_TIMEOUT)
    if group.is_dead:
        raise ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    is_new = member_id not in image.members and request.group_instance_id not in image.static_members
    if is_new and len(image.members) >= settings.consumer_max_size:
        raise ProtocolError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    protocols = tuple((one.name, bytes(one.metadata)) for one in request.protocols)
    if request.protocol_type != CONSUMER or not _is_common(image, member_id, protocols):
        raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    draft = Draft(shard, group.group_id, now_ms)
    if not member_id:
        member_id = short_id(asked.unique)
        if request.group_instance_id is None and asked.version >= FIRST_TO_ASK_FOR_AN_ID:
            refusal = join_refused(asked.version, ErrorCode.MEMBER_ID_REQUIRED, member_id)
            return shard.answer(asked.call, refusal)
    elif request.group_instance_id is not None:
        _check_instance(image, request.group_instance_id, member_id)
    if request.group_instance_id is not None:
        known = image.static_members.get(request.group_instance_id)
        if known is not None and known != member_id:
            # Whoever has it: a classic client knows no UNRELEASED_INSTANCE_ID, and would give up.
            take_place(draft, known, member_id)
    subscription = read_subscription(protocols[0][1])
    if subscription is None:
        raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    subscriber = _subscriber(asked, request, subscription, protocols)
    is_changed = draft.subscribe(member_id, subscriber)
    if may_downgrade(shard, image, draft.image):
        return _join_classic(draft, asked, member_id)
    draft.move_epoch(is_changed=is_changed)
    draft.retarget()
    if not draft.reconcile(member_id, by_id(draft, subscription.owned)):
        raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID)
    response = JoinGroupResponse(
        generation_id=draft.image.current_of(member_id).epoch,
        protocol_type=CONSUMER,
        protocol_name=protocols[0][0],
        member_id=member_id,
    )
    group_id, timeout_ms, version = group.group_id, max(request.rebalance_timeout_ms, 0), asked.version

    def joined() -> None:
        found = shard.consumer_groups.get(group_id)
        if found is not None:
            found.drop_deadline(Kind.CLASSIC_JOIN, member_id)
            found.set_deadline(Kind.CLASSIC_SYNC, member_id, now_ms + timeout_ms)
            renew_session(shard, found, member_id, now_ms)

    turn = Turn(
        group_id, draft.records, asked.call, response, lambda error: join_refused(version, error, member_id)
    )
    turn.then = joined
    take_turn(draft, turn)
    return None


def _join_classic(draft: Draft, asked: Asked, member_id: str) -> None:
    """The last member of the new protocol came back as a classic one: the group is classic, and it joins once more."""
    version = asked.version
    turn = Turn(
        draft.group_id,
        draft.records,
        asked.call,
        join_refused(version, ErrorCode.REBALANCE_IN_PROGRESS, member_id),
        lambda error: join_refused(version, error, member_id),
        becomes=downgrade(draft),
    )
    take_turn(draft, turn)


def _check_instance(image: ConsumerImage, instance_id: str, member_id: str) -> None:
    known = image.static_members.get(instance_id)
    if known is None:
        raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID)
    if known != member_id:
        raise ProtocolError(ErrorCode.FENCED_INSTANCE_ID)


def _is_common(image: ConsumerImage, member_id: str, protocols: Protocols) -> bool:
    """One of them has to be offered by every other classic member."""
    common = {name for name, _ in protocols}
    for other, subscriber in image.classic_members():
        if other != member_id and subscriber.classic is not None:
            common &= {name for name, _ in subscriber.classic.protocols}
    return bool(common)


def _subscriber(
    asked: Asked, request: JoinGroupRequest, subscription: Subscription, protocols: Protocols
) -> Subscriber:
    return Subscriber(
        request.group_instance_id,
        subscription.rack or None,
        asked.client.client_id,
        asked.client.host,
        tuple(sorted(set(subscription.topics))),
        "",
        request.rebalance_timeout_ms,
        None,
        ClassicMember(request.session_timeout_ms, protocols),
    )


# -------------------------------------------------------------------------------------- in the generation


def _why_no_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode:
    image = group.image
    if instance_id is not None:
        known = image.static_members.get(instance_id)
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if known != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    subscriber = image.members.get(member_id)
    if subscriber is None or subscriber.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if generation == image.current_of(member_id).epoch else ErrorCode.ILLEGAL_GENERATION


def sync_consumer_group(
    shard: Shard, group: ConsumerGroup, asked: Asked, request: SyncGroupRequest, now_ms: int
) -> None:
    image, member_id = group.image, request.member_id
    error = _why_no_member(group, member_id, request.group_instance_id, request.generation_id)
    if error:
        return shard.answer(asked.call, sync_refused(error))
    classic = image.members[member_id].classic
    assert classic is not None, "a classic member, as was just asked"
    name, metadata = classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, name):
        return shard.answer(asked.call, sync_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    current = image.current_of(member_id)
    renew_session(shard, group, member_id, now_ms)
    # Whoever is letting go has joined already, and goes on by letting go.
    if image.epoch > current.epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
        expect_join(group, member_id, now_ms)
        return shard.answer(asked.call, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
    group.drop_deadline(Kind.CLASSIC_SYNC, member_id)
    named = {shard.ids.name_of(topic): at for topic, at in current.assigned.items()}
    assignment = {topic: at for topic, at in named.items() if topic is not None}
    response = SyncGroupResponse(
        protocol_type=CONSUMER,
        protocol_name=name,
        assignment=write_assignment(assignment, version_of(metadata)),
    )
    return shard.answer(asked.call, response)


def expect_join(group: ConsumerGroup, member_id: str, now_ms: int) -> None:
    """It was told to join again, and has its rebalance timeout for that."""
    if (Kind.CLASSIC_JOIN, member_id) not in group.deadlines:
        timeout_ms = max(group.image.members[member_id].rebalance_timeout_ms, 0)
        group.set_deadline(Kind.CLASSIC_JOIN, member_id, now_ms + timeout_ms)


def heartbeat_in_consumer_group(
    shard: Shard, group: ConsumerGroup, asked: Asked, request: HeartbeatRequest, now_ms: int
) -> None:
    member_id = request.member_id
    error = _why_no_member(group, member_id, request.group_instance_id, request.generation_id)
    if not error:
        renew_session(shard, group, member_id, now_ms)
        if _has_to_learn(group.image, member_id):
            expect_join(group, member_id, now_ms)
            error = ErrorCode.REBALANCE_IN_PROGRESS
    shard.answer(asked.call, HeartbeatResponse(error_code=error))


def _has_to_learn(image: ConsumerImage, member_id: str) -> bool:
    current: Current = image.current_of(member_id)
    if current.epoch < image.epoch or current.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if current.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    return all(
        image.owners.get(topic, {}).get(one) in (None, member_id)
        for topic, partitions in image.target_of(member_id).items()
        for one in partitions
    )


# ------------------------------------------------------------------------------------------------- leaving


def leave_consumer_group(
    shard: Shard, group: ConsumerGroup, asked: Asked, request: LeaveGroupRequest, now_ms: int
) -> None:
    """Members of either protocol; an administrator sends it too."""
    leavers = leavers_of(asked.version, request)
    gone: dict[str, None] = {}
    errors: list[ErrorCode] = []
    for member_id, instance_id in leavers:
        found, error = _leaver(group.image, member_id, instance_id)
        if not error and found in gone:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if not error:
            gone[found] = None
        errors.append(error)

    response = leavers_told(asked.version, leavers, errors)
    if not gone:
        return shard.answer(asked.call, response)
    members = group.image.members
    # Those of the new protocol last: the group is classic again when the last of them has gone, and not before.
    ordered = sorted(gone, key=lambda one: members[one].classic is None)
    return _leave_some(shard, group, ordered[::-1], asked.call, response, now_ms)


def _leave_some(
    shard: Shard, group: ConsumerGroup, left: list[str], call: int, response: Response | Later, now_ms: int
) -> None:
    """As many as a batch holds, and the others when that is committed, within the same turn. `left`: the next one last."""
    some = left[-MOST_LEAVING:][::-1]
    some = some[: how_many_leave(shard, group.group_id, some)]
    del left[-len(some) :]
    draft, becomes = draft_of_leave(shard, group, some, now_ms)
    turn = Turn(
        group.group_id,
        draft.records,
        call,
        None if left else response,
        lambda error: LeaveGroupResponse(error_code=error),
        becomes=becomes,
    )
    if left:
        turn.then = lambda: _leave_some(shard, group, left, call, response, now_ms)
    take_turn(draft, turn)


def _leaver(image: ConsumerImage, member_id: str, instance_id: str | None) -> tuple[str, ErrorCode]:
    if instance_id is not None:
        known = image.static_members.get(instance_id)
        if known is None:
            return member_id, ErrorCode.UNKNOWN_MEMBER_ID
        if member_id and known != member_id:
            return member_id, ErrorCode.FENCED_INSTANCE_ID
        return known, ErrorCode.NONE
    return member_id, ErrorCode.NONE if member_id in image.members else ErrorCode.UNKNOWN_MEMBER_ID
