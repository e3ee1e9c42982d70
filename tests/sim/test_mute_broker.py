"""A broker that answers its controller nothing, and whose session stands, while much happens that it is to be told."""

from odradek.sim.plan import Fault
from odradek.sim.run import OK, describe, run
from odradek.sim.scenario import play
from tests.sim.test_further_faults import notes, plan_with

TOPICS = 80


def test_after_many_topics_were_made_and_deleted_and_leaders_moved_nothing_is_left_or_lost() -> None:
    commands = ["cluster brokers=4 kept=20"]
    commands += [f"topic stays{n} replicas={replicas}" for n, replicas in enumerate(("3,1", "2,3", "2,4"))]
    commands += ["produce stays0-0 a", "produce stays1-0 b", "settle"]
    commands += [f"withhold {kind} 3" for kind in ("leader-and-isr", "stop-replica", "update-metadata")]
    kept = []
    for number in range(TOPICS):
        replicas = ("1,2", "2,3", "4,1", "4,3,2")[number % 4]
        commands += [f"topic t{number} replicas={replicas}", f"delete t{number}"]
        if "3" in replicas:
            kept.append(f"t{number}")
        if number % 50 == 25:
            commands += ["kill 2", "run 2", "start 2", "run 2"]
    commands += ["topic born replicas=1,3,2", "release", *[f"wait-gone {name}" for name in kept]]
    commands += ["settle", "topics 3", "disks 3", "log stays0-0", "log stays1-0"]
    played = play("# why\n\n" + "\n".join(commands) + "\n----\n").splitlines()
    said = played[played.index("----") + 1 :]
    end = len(said) - 1 - said[::-1].index("at rest")
    topics, disks, *logs = said[end + 1 :]
    assert [name.split()[0] for name in topics.removeprefix("3: ").split(", ")] == [
        "born-0",
        "stays0-0",
        "stays1-0",
        "stays2-0",
    ]
    served = [word for word in disks.split() if word.endswith("-0") and f"{word} set aside" not in disks]
    assert served == ["born-0", "stays0-0", "stays1-0"]
    assert [line.split(" | ")[0] for line in logs] == ["1: a", "3: a", "2: b", "3: b"]


def test_worlds_of_a_mute_broker_survive_it_and_keep_little() -> None:
    chosen = [
        Fault(at_s, "mute_broker", target, amount, 5.0)
        for at_s, target, amount in ((2.0, 0.1, 0.2), (6.0, 0.5, 0.7), (9.0, 0.9, 0.2))
    ]
    kills = [Fault(at_s, "kill_leader", 0.3, 0.4, 1.0) for at_s in (3.0, 7.0, 10.0)]
    outcome = run(plan_with(*chosen, *kills, seed=3, duration_s=15.0))
    assert outcome.code == OK, describe(outcome)
    assert len(notes(outcome, "nothing arrives of what the controller")) == 3
