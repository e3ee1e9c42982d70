"""The world of one scenario, and playing it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.deliveries import check
from odradek.sim.checkers.history import History, has_key
from odradek.sim.clients.client import SimClient
from odradek.sim.faults.withheld import Withheld
from odradek.sim.loop import Host
from odradek.sim.mistakes import Mistakes, quiet_but_for
from odradek.sim.observed.acknowledgements import Acknowledgements
from odradek.sim.observed.watch import Watch
from odradek.sim.scenario.admin import Administrating
from odradek.sim.scenario.breaking import Breaking
from odradek.sim.scenario.clients import Producing
from odradek.sim.scenario.queries import PATIENCE_S, Querying
from odradek.sim.scenario.repeating import Repeating
from odradek.sim.scenario.text import SHORT, Words, Wrong, listed, parse, render, words_of
from odradek.sim.scenario.withholding import Withholding
from odradek.sim.world import NotInTime, SimBroker, World


def play(text: str, *, seed: int | None = None) -> str:
    """The text with the outcomes as they came out. `seed` takes the place of the one in the text."""
    paragraphs = parse(text)
    stage = Stage(seed)
    try:
        for paragraph in paragraphs:
            paragraph.outcome = [line for command in paragraph.commands for line in stage.does(command)]
        left = stage.end()
        if left:
            paragraphs[-1].outcome += left
    finally:
        stage.close()
    return render(paragraphs)


class Stage(Administrating, Breaking, Producing, Querying, Repeating, Withholding):
    """The world of one scenario, and what its commands do."""

    def __init__(self, seed: int | None = None) -> None:
        self._seed = seed
        self._world: World | None = None
        self._client: SimClient | None = None
        self._host = Host("c1", 101)
        self.history = History()
        self._ids: dict[str, tuple[int, int]] = {}
        self._sequences: dict[tuple[str, TopicPartition], int] = {}
        self._watch: Watch | None = None
        self._acknowledgements: Acknowledgements | None = None
        self._quiet = ExitStack()
        self._withheld: Withheld | None = None
        self._told: set[str] = set()
        self._sending: dict[str, str] = {}  # name -> what came of it
        self._overheard: dict[str, list[bytes]] = {}  # broker -> what controllers wrote to it
        self._garbled: dict[str, bytes] = {}  # path -> what stood there before

    @property
    def world(self) -> World:
        if self._world is None:
            raise Wrong("the first command is `cluster`")
        return self._world

    @property
    def watch(self) -> Watch:
        assert self._watch is not None
        return self._watch

    @property
    def client(self) -> SimClient:
        assert self._client is not None
        return self._client

    def close(self) -> None:
        from odradek.sim.run import let_go

        if self._world is not None:
            let_go(self._world)
        self._quiet.close()

    def does(self, command: str) -> list[str]:
        verb, words = words_of(command)
        act = getattr(self, "do_" + verb.replace("-", "_"), None)
        if act is None:
            raise Wrong(f"no command {verb!r} in {command!r}")
        try:
            said = list(act(words) or ())
        except NotInTime as late:
            said = [f"! not in time: {late}"]
        return said + self._anomalies()

    def end(self) -> list[str]:
        """What clients saw, judged. Where everybody is up at the end, all that was acknowledged must be readable."""
        if self._world is None:
            return []
        is_over = all(broker.is_running for broker in self._world.brokers.values())
        if is_over:
            for partition in dict.fromkeys(event.topic_partition for event in self.history.events):
                self._call(self._read(partition, None, 0, is_final=True))
        self.history.is_final = is_over
        compacted = {s.topic_partition.topic for s in self.history.sends() if any(map(has_key, s.values))}
        partitions = self.world.view(with_batches=False).partitions
        # What lies below was let go, or deleted on purpose: a scenario shows where its logs begin.
        starts = {
            tp: max((r.log_start_offset for r in state.replicas), default=0)
            for tp, state in partitions.items()
        }
        return [f"! {anomaly}" for anomaly in check(self.history, log_starts=starts, compacted=compacted)]

    def _anomalies(self) -> list[str]:
        watch, acknowledgements = self.watch, self._acknowledgements
        assert acknowledgements is not None
        let_in, self.world.let_in = self.world.let_in, []
        anomalies = (*acknowledgements.found, *watch.found, *watch.check(), *let_in)
        found = [str(anomaly) for anomaly in anomalies]
        watch.found, acknowledgements.found = [], []
        self._mistakes.check()
        found += [f"crash: {mistake}" for mistake in self._mistakes.found]
        for broker in self.world.brokers.values():
            if broker.exit_reason is not None:
                found.append(f"crash: {broker.name} stopped: {broker.exit_reason}")
        new = [text for text in dict.fromkeys(found) if text not in self._told]
        self._told.update(new)
        return [f"! {text}" for text in new]

    # --- the cluster

    def do_cluster(self, words: Words) -> None:
        named = dict(words.named)
        count = int(named.pop("brokers", "3"))
        seed = int(named.pop("seed", "0"))
        notices = named.pop("notices", "yes") == "yes"
        disks = int(named.pop("disks", "1"))
        kept = named.pop("kept", None)
        settings = {"auto.leader.rebalance.enable": "false", **named}
        self._world = World(
            seed if self._seed is None else self._seed,
            brokers=count,
            settings=settings,
            store_notices_death=notices,
            disks_per_broker=disks,
            requests_kept=None if kept is None else int(kept),
        )
        world = self._world
        self._watch = Watch(world)
        # A scenario may change min.insync.replicas at any moment.
        self._acknowledgements = Acknowledgements(world, self._host.name, is_min_isr_fixed=False)
        self._mistakes = Mistakes(world)
        self._quiet.enter_context(quiet_but_for(self._mistakes))
        world.brokers[BrokerId(1)].start()
        world.run_while(lambda: not world.brokers[BrokerId(1)].is_controller, 60.0, "broker 1 is controller")
        for broker in list(world.brokers.values())[1:]:
            broker.start()
        world.run_while(lambda: not world.is_ready(), 60.0, "every broker knows all others")
        self._client = SimClient(world.loop, self._host, world.addresses)
        self._call(self._client.refresh([]))

    def _call(self, work: Any) -> Any:
        return self.world.call(self._host, work)

    def _broker(self, text: str) -> SimBroker:
        return self.world.brokers[BrokerId(int(text))]

    def do_topic(self, words: Words) -> Iterator[str]:
        (name,) = words.plain
        named = {SHORT.get(k, k): v for k, v in words.named.items()}
        assignments = [listed(part) for part in named.pop("replicas").split(";")]
        error = self._call(self.client.create_topic(name, -1, -1, named, assignments=assignments))
        if error != ErrorCode.NONE:
            yield error.name
            return
        partitions = [TopicPartition(name, n) for n in range(len(assignments))]
        self._until(lambda: all(self._stored(p) is not None for p in partitions), "the topic has leaders")
        self._until(lambda: all(self._is_led(p) for p in partitions), "the leader knows")
        for partition in partitions:
            yield f"{partition}: {self._state_text(partition)}"

    def _is_led(self, partition: TopicPartition) -> bool:
        stored = self._stored(partition)
        leader = None if stored is None else self._replica(self.world.brokers.get(stored.leader), partition)
        return leader is not None and leader.is_leader and leader.leader_epoch == stored.leader_epoch

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        self.world.run_while(lambda: not condition(), PATIENCE_S, what)
