"""A cluster as one sees it from outside: what stands in its store or its Metadata, and nothing decided.

`what_if.context_of` lets a controller take over, which elects and resumes at once; right for "what would happen",
wrong for "why is it so": the partition one asks about would be mended before one looks. Here nothing is moved. How
far a reassignment is stands in no node; it is read off the ISR, as a controller that takes over would.
"""

from odradek.controller.context import (
    ControllerContext,
    ControllerSettings,
    Reassignment,
    ReassignmentPhase,
)
from odradek.controller.events import Elected
from odradek.controller.failover import load_context, newest_controller_epoch
from odradek.model.facts import MetadataLoaded
from odradek.model.ids import BrokerId, ControllerEpoch


def observed_context(
    snapshot: MetadataLoaded,
    settings: ControllerSettings | None = None,
    *,
    controller: BrokerId | None = None,
    now_ms: int = 0,
) -> ControllerContext:
    newest, _ = newest_controller_epoch(snapshot.states)
    live = sorted(r.broker_id for r in snapshot.brokers)
    me = controller if controller is not None else next(iter(live), BrokerId(-1))
    loaded = Elected(me, ControllerEpoch(max(newest, 0)), 0, snapshot)
    context = load_context(loaded, settings or ControllerSettings())
    for topic_partition, moving in sorted(context.reassignments.items()):
        state = context.leadership(topic_partition)
        stored = moving.stored
        if state is None or not set(stored.target_replicas) <= set(state.isr):
            continue
        if state.leader in stored.removing_replicas:
            phase = ReassignmentPhase.GROWING  # about to move the leader
        elif set(state.isr) & set(stored.removing_replicas):
            phase = ReassignmentPhase.SHRINKING
        else:
            phase = ReassignmentPhase.STOPPING
            # Since when they owe an answer is not written anywhere but in the controller's journal.
            context.removals[topic_partition] = {b: now_ms for b in stored.removing_replicas if b in live}
        context.reassignments[topic_partition] = Reassignment(stored, phase)
    return context
