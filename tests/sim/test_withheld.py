"""Single requests and answers between brokers held back by a scenario, and let go one by one."""

import pytest

from odradek.sim.scenario import Wrong, play

OPENING = "cluster\ntopic t replicas=2,3\nrun 1\n"


def outcome(commands: str) -> list[str]:
    lines = play(f"# why\n\n{OPENING}{commands}----\n").splitlines()
    return lines[lines.index("----") + 2 :]  # without the state of the new topic


def marks(commands: str) -> list[str]:
    """End and high watermark of each replica at the end of it."""
    found = [line for line in outcome(f"{commands}log t-0\n") if " | " in line]
    return [" ".join(line.split(" | ")[1].split()[:4]) for line in found]


def test_a_fetch_and_its_answer_are_two_steps() -> None:
    hold = "withhold fetch 3\nrun 1\nwithhold fetched 3\nproduce t-0 a acks=1\n"
    assert marks(hold) == ["end 1 mark 0", "end 0 mark 0"]
    assert marks(f"{hold}let fetch 3\n") == ["end 1 mark 0", "end 0 mark 0"]
    assert marks(f"{hold}let fetch 3\nlet fetched 3\n") == ["end 1 mark 0", "end 1 mark 0"]
    assert marks(f"{hold}let fetch 3\nlet fetched 3\nlet fetch 3\n") == ["end 1 mark 1", "end 1 mark 0"]
    assert marks(f"{hold}release\nsettle\n") == ["end 1 mark 1", "end 1 mark 1"]


def test_a_second_let_waits_for_the_first_fetch_to_be_answered() -> None:
    hold = "withhold fetch 3\nrun 1\nwithhold fetched 3\n"
    assert marks(f"{hold}let fetch 3\nlet fetch 3\nproduce t-0 a acks=1\nlet fetched 3\n") == [
        "end 1 mark 0",
        "end 1 mark 0",
    ]


def test_a_fetch_whose_connection_was_lost_and_that_arrives_late_is_of_a_session_that_is_over() -> None:
    lost = "withhold fetch 3\nproduce t-0 a acks=1\nwait t-0 end=3:1\ndrop fetch 3\nrun 1\n"
    assert marks(lost) == ["end 1 mark 0", "end 1 mark 0"]
    assert marks(f"{lost}late-fetch 3\n") == ["end 1 mark 0", "end 1 mark 0"]


def test_who_lags_leaves_the_isr_only_once_the_controller_has_heard() -> None:
    lag = "withhold alter-partition 2\nwithhold fetch 3\nproduce t-0 a acks=1\nlag 2 t-0 3\n"
    assert "t-0: leader 2 epoch 0 isr 2,3" in outcome(f"{lag}state t-0\n")
    assert "t-0: leader 2 epoch 0 isr 2" in outcome(f"{lag}let alter-partition 2\nstate t-0\n")


def test_an_answer_that_is_lost_is_asked_for_again() -> None:
    lag = "withhold alter-partition 2\nwithhold altered 2\nwithhold fetch 3\nproduce t-0 a acks=1\nlag 2 t-0 3\n"
    again = "let alter-partition 2\nlet alter-partition 2\nlet altered 2\n"
    assert marks(f"{lag}let alter-partition 2\n") == ["end 1 mark 0", "end 1 mark 0"]
    assert marks(f"{lag}{again}lag 2 t-0 3\n") == ["end 1 mark 1", "end 1 mark 0"]


def test_leadership_is_heard_of_when_it_is_let_go() -> None:
    elect = "withhold leader-and-isr 2 3\nkill 2\nwait t-0 leader=3 epoch=1 isr=3\n"
    told = [line for line in outcome(f"{elect}roles t-0\n") if line.startswith(("!", "3"))]
    assert told == [
        "! not in time: not within 60 simulated seconds: t-0 leader=3 epoch=1 isr=3",
        "3 follows 2 in 0",
    ]
    assert "3 leads in 1" in outcome(f"{elect}let leader-and-isr 3 epoch=1\nroles t-0\n")


def test_nothing_to_let_go_is_said() -> None:
    said = outcome("withhold altered 2\nlet altered 2\ndrop fetch 3\nlate-fetch 3\nlag 3 t-0 2\n")
    assert said == ["no altered of 2", "no fetch of 3", "no late fetch of 3", "3 does not lead t-0"]


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(Wrong, match="nothing of the kind 'letters'"):
        outcome("withhold letters 2\n")
