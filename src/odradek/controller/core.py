"""The controller: `step(event, now_ms) -> Effects`. Decides, never waits.

An event becomes a few tasks. Each task is planned over the context, its writes go out, the answers come back
as `WritesAnswered`, what was stored is committed, what met a conflict is planned again on the value found.
After the last write of the event - not before - its requests, answers and changes leave in one Effects
(rows 30, 77, 78, 151): a controller that dies in between has told nobody, and its successor reads the
decision from the store.

Whoever runs it (`server.controller_term`; without waiting, `settle`) has five duties:

1. `step(event, now_ms)` for every event, one at a time, in the order in which the store told them.
2. If there are `writes`: write them in their order, each over the version it names and under the fence, and hand
   `WritesAnswered`, one answer for each, to the next `step`. No other event comes in between.
3. `requests`, `changes` and `answers` may leave at once, for all that they depend on is stored: the requests to each
   broker in their order. What a broker answers comes back as an event.
4. `follow_up` are events to hand to `step` next, in their order, before any other.
5. After `resign`: send nothing of this term any more and give the controller node up; `Elected` begins another term.

Any doubt about our own state ends in `resign`: an illegal transition, a fenced write, a state node of a later
controller, an exception. Memory is dropped; elected again, everything is read anew (rows 24, 31, 37, 145).
"""

from traceback import format_exc

from odradek.controller.broker_requests import BrokerRequest
from odradek.controller.context import ControllerContext, ControllerSettings
from odradek.controller.dispatch import (
    Resign,
    immediate_answer,
    not_controller,
    superseded,
    tasks_of,
    tasks_of_election_won,
)
from odradek.controller.effects import (
    NOTHING,
    Answer,
    CreatePartitionState,
    Effects,
    StateChange,
    Write,
    WritePartitionState,
)
from odradek.controller.events import (
    Conflict,
    Elected,
    Event,
    Fenced,
    Resigned,
    Stored,
    WriteAnswer,
    WritesAnswered,
)
from odradek.controller.failover import (
    commit_initial_states,
    load_context,
    newest_controller_epoch,
)
from odradek.controller.plan import Notification, Plan, Question
from odradek.controller.requests import requests_of
from odradek.controller.states import PartitionState
from odradek.controller.task import LED_ANEW, Task, led_anew
from odradek.controller.unassigned import as_assigned
from odradek.controller.unclean import commit_asked, questions
from odradek.model.facts import (
    StoredPartitionState,
    UnreadableNode,
)
from odradek.model.ids import PartitionEpoch, TopicPartition, in_order
from odradek.model.values import dataclass, field, replace

# A conflict means that somebody wrote a node we own. Once or twice is an old leader or a hand; a node that
# changes under every attempt is a state of the world we do not understand.
MOST_ATTEMPTS = 10


@dataclass(slots=True)
class _Work:
    """An event in the middle of its writes: plain data, so that it can be looked at."""

    event: Event
    tasks: list[Task]
    task: Task | None = None
    plan: Plan | None = None
    written: tuple[Write, ...] = ()
    attempts: int = 0
    first_notifications: list[Notification] = field(default_factory=list)
    telling: Notification = field(default_factory=Notification)
    outcomes: dict[object, object] = field(default_factory=dict)
    asks: dict[TopicPartition, Question] = field(default_factory=dict)
    requests: list[BrokerRequest] = field(default_factory=list)
    changes: list[StateChange] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    follow_up: list[Event] = field(default_factory=list)


class ControllerCore:
    def __init__(self, settings: ControllerSettings | None = None) -> None:
        self.settings = settings or ControllerSettings()
        self.context: ControllerContext | None = None  # None: not the controller
        self._work: _Work | None = None
        self._now_ms = 0

    @property
    def is_active(self) -> bool:
        return self.context is not None

    @property
    def is_writing(self) -> bool:
        """In the middle of an event: the next must be `WritesAnswered`."""
        return self._work is not None

    @property
    def fence(self) -> int:
        """The version of `/controller_epoch` that every write must find there."""
        assert self.context is not None, "only the controller has a fence"
        return self.context.epoch_version

    def next_deadline_ms(self) -> int | None:
        """When a `Tick` is wanted; None: never."""
        if self.context is None:
            return None
        return min(self.context.deadlines.values(), default=None)

    def fork(self) -> "ControllerCore":
        """A copy that can be asked what-if. Between events only: a plan in flight is not shared."""
        assert self._work is None, "a controller in the middle of its writes cannot be forked"
        copy = ControllerCore(self.settings)
        copy.context = self.context.fork() if self.context is not None else None
        return copy

    def step(self, event: Event, now_ms: int) -> Effects:
        if isinstance(event, WritesAnswered):
            assert self._work is not None, "answers of writes nobody asked for"
            assert len(event.answers) == len(self._work.written), "one answer for each write"
        else:
            assert self._work is None, (
                f"{type(event).__name__} before the writes of the last event were answered"
            )
        self._now_ms = now_ms
        try:
            if isinstance(event, WritesAnswered):
                return self._answered(event)
            return self._begin(event)
        except Resign as doubt:
            return self._resign(str(doubt), event)
        except Exception as mistake:  # ours: nothing we remember can be trusted now (row 31)
            detail = format_exc(limit=-3)
            return self._resign(
                f"{type(mistake).__name__}: {mistake}\n{detail}", event, is_internal_error=True
            )

    # ------------------------------------------------------------------------------------ event to tasks

    def _begin(self, event: Event) -> Effects:
        if isinstance(event, Elected):
            return self._elected(event)
        if self.context is None:
            answer = not_controller(event)
            return Effects(answers=(answer,)) if answer is not None else NOTHING
        if isinstance(event, Resigned):
            return self._resign(event.reason, event)
        answer = immediate_answer(self.context, event)
        if answer is not None:
            return Effects(answers=(answer,))
        tasks = tasks_of(self.context, event, self._now_ms)
        return self._advance(_Work(event, tasks)) if tasks else NOTHING

    def _elected(self, event: Elected) -> Effects:
        self.context = None
        epoch, where = newest_controller_epoch(event.snapshot.states)
        if epoch > event.controller_epoch:
            raise superseded(where, epoch, event.controller_epoch)
        self.context = load_context(event, self.settings)
        return self._advance(_Work(event, tasks_of_election_won(self.context, event, self._now_ms)))

    # ------------------------------------------------------------------------------ plan, write, commit

    def _advance(self, work: _Work) -> Effects:
        """Go on until something must be written, or the event is done."""
        context = self.context
        assert context is not None
        while True:
            if work.plan is None:
                if not work.tasks:
                    return self._finish(work)
                work.task = work.tasks.pop(0)
                work.task.commit_facts(context)
                work.attempts = 0
                work.outcomes = {}
                work.plan = Plan(context, work.task.reason(), now_ms=self._now_ms)
                work.task.plan(work.plan)
            writes = tuple(work.plan.writes())
            if writes:
                work.written = writes
                self._work = work
                return Effects(writes=writes)
            self._commit(work)
            self._finish_task(work)

    def _answered(self, event: WritesAnswered) -> Effects:
        work, context = self._work, self.context
        assert work is not None and work.plan is not None and work.task is not None and context is not None
        plan, task = work.plan, work.task
        if Fenced in set(map(type, event.answers)):
            raise Resign(f"fenced: /controller_epoch is no longer at version {context.epoch_version}")
        lost: dict[TopicPartition, object | None] = {}  # conflicts, and what stands there
        others: list[tuple[Write, WriteAnswer]] = []
        for write, answer in zip(work.written, event.answers, strict=True):
            if (
                write.__class__ is WritePartitionState
                and answer.__class__ is Stored
                and answer.version == write.value.partition_epoch
            ):
                continue  # nearly all of them, so without a call
            if isinstance(write, (WritePartitionState, CreatePartitionState)):
                found = _outcome(context, write, answer, plan)
                if found is not _STORED:
                    lost[write.topic_partition] = found
            else:
                others.append((write, answer))
        plan.drop(set(lost))
        self._commit(work)
        again = False
        for write, answer in others:
            again = task.commit_answer(context, write, answer) or again
        retry = _adopt(context, work, lost)
        if not retry and not again:
            self._finish_task(work)
            return self._advance(work)
        work.attempts += 1
        if work.attempts > MOST_ATTEMPTS:
            raise Resign(f"{work.attempts} conflicts in a row on {sorted(lost) or work.written[0]}")
        only = None if again else frozenset(retry)
        work.plan = Plan(context, task.reason(), only, self._now_ms)
        task.plan(work.plan)
        return self._advance(work)

    def _commit(self, work: _Work) -> None:
        plan = work.plan
        assert plan is not None
        work.changes.extend(plan.commit())
        work.first_notifications.extend(plan.first_notifications)
        work.telling.merge(plan.telling)
        work.outcomes.update(plan.outcomes)
        led = plan.context.reassignments.keys() & plan.leaderships.keys()
        if led:
            work.outcomes[LED_ANEW] = (*led_anew(work.outcomes), *in_order(led))
        work.asks.update(plan.asks)

    def _finish_task(self, work: _Work) -> None:
        """Everything of the task is stored: now the values of its requests are known."""
        assert self.context is not None and work.task is not None
        commit_asked(self.context, work.asks, self._now_ms)
        work.task.commit_done(self.context, work.outcomes, self._now_ms)
        for telling in (*work.first_notifications, work.telling):
            work.requests.extend(requests_of(self.context, telling))
        work.requests.extend(questions(self.context, work.asks))
        work.answers.extend(work.task.answers(self.context, work.outcomes))
        work.follow_up.extend(work.task.follow_up(self.context, work.outcomes))
        work.first_notifications, work.telling, work.asks = [], Notification(), {}
        work.task = work.plan = None

    def _finish(self, work: _Work) -> Effects:
        self._work = None
        return Effects(
            requests=tuple(work.requests),
            changes=tuple(work.changes),
            answers=tuple(work.answers),
            follow_up=tuple(work.follow_up),
        )

    def _resign(self, reason: str, event: Event, *, is_internal_error: bool = False) -> Effects:
        """Forget everything. What the event had stored is told by the successor, who reads it."""
        asked = self._work.event if self._work is not None else event
        answer = not_controller(asked)
        who = str(self.context.broker) if self.context is not None else "?"
        self.context = None
        self._work = None
        change = StateChange("controller", "controller", "resigned", reason, name=who)
        return Effects(
            changes=(change,),
            answers=(answer,) if answer is not None else (),
            resign=reason,
            is_internal_error=is_internal_error,
        )


_STORED = object()


def _outcome(
    context: ControllerContext,
    write: WritePartitionState | CreatePartitionState,
    answer: object,
    plan: Plan,
) -> object | None:
    """`_STORED`, or what stands in the node instead of our value."""
    topic_partition = write.topic_partition
    if type(answer) is Stored:
        if answer.version != write.value.partition_epoch:
            plan.leaderships[topic_partition] = replace(
                write.value, partition_epoch=PartitionEpoch(answer.version)
            )
        return _STORED
    assert isinstance(answer, Conflict)
    current = answer.current
    if isinstance(current, StoredPartitionState):
        if current.controller_epoch > context.controller_epoch:
            raise superseded(topic_partition, current.controller_epoch, context.controller_epoch)
        ours = replace(write.value, partition_epoch=current.leader_and_isr.partition_epoch)
        if current.controller_epoch == context.controller_epoch and current.leader_and_isr == ours:
            plan.leaderships[topic_partition] = ours  # our own write, its acknowledgement was lost
            return _STORED
    return current


def _adopt(
    context: ControllerContext, work: _Work, lost: dict[TopicPartition, object | None]
) -> set[TopicPartition]:
    """Remember what stands in the nodes that were not as expected; returns those to be planned again."""
    retry: set[TopicPartition] = set()
    for topic_partition in sorted(lost):
        found = lost[topic_partition]
        state = context.partition_state(topic_partition)
        if isinstance(found, StoredPartitionState):
            found = as_assigned(context, topic_partition, found)
        if isinstance(found, StoredPartitionState):
            context.commit_leadership(topic_partition, found)
            if state is PartitionState.NON_EXISTENT:
                commit_initial_states(context, [topic_partition])
            reason, retry = "another value was stored; planned again on it", retry | {topic_partition}
        elif isinstance(found, UnreadableNode):
            reason = f"{found.path}: {found.reason}"
            context.commit_out_of_service(topic_partition.topic, reason)
        else:
            reason = "the leader and isr path in zookeeper is empty"
        work.changes.append(StateChange("failure", state, state, reason, topic_partition))
    return {tp for tp in retry if tp in context.assignments}
