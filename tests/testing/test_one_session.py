"""Tests that share a Spark session are run by one worker, and files that do not are handed out as ever."""

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.one_session import GROUP, group_of, scheduling, takes_the_session

ROOT = Path(__file__).parents[2]
SHARE = ["tests/spark/test_jobs.py", "tests/spark/test_source.py", "tests/spark/test_upsert.py"]
ALONE = ["tests/spark/test_driver_kills.py", "tests/spark/test_shipped.py", "tests/cli/test_up.py"]


class Worker:
    """What the scheduling asks of one: it keeps the numbers of the tests that it is given."""

    def __init__(self) -> None:
        self.given: list[int] = []
        self.shutting_down = False
        self.gateway = SimpleNamespace(id="gw")

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.given += numbers

    def shutdown(self) -> None:
        self.shutting_down = True


def is_argument_of_one(function: ast.AST) -> bool:
    return isinstance(function, ast.FunctionDef) and any(
        argument.arg == "spark" for argument in [*function.args.args, *function.args.kwonlyargs]
    )


def test_a_file_shares_the_session_where_a_function_of_it_has_it_as_an_argument() -> None:
    files = sorted((ROOT / "tests" / "spark").glob("test_*.py"))
    asking = {f for f in files if any(map(is_argument_of_one, ast.walk(ast.parse(f.read_text("utf-8")))))}

    assert len(asking) > 10
    assert {file for file in files if takes_the_session(file)} == asking


def test_what_shares_the_session_is_one_group_and_every_other_file_its_own() -> None:
    assert {group_of(f"{name}::test_a[1]", ROOT) for name in SHARE} == {GROUP}
    assert [group_of(f"{name}::TestA::test_b", ROOT) for name in ALONE] == ALONE


def test_one_worker_is_given_all_that_shares_the_session() -> None:
    config: Any = SimpleNamespace(
        rootpath=ROOT,
        option=SimpleNamespace(loadscopereorder=False),
        getvalue=lambda name: ["popen", "popen"],
    )
    # The files of a session are not beside each other.
    files = [SHARE[0], ALONE[0], SHARE[1], ALONE[1], SHARE[2], ALONE[2]]
    tests = [f"{file}::test_{n}" for file in files for n in range(3)]
    workers: list[Any] = [Worker(), Worker()]
    handing = scheduling(config, None)
    for worker in workers:
        handing.add_node(worker)
        handing.add_node_collection(worker, tests)

    handing.schedule()

    of_one, of_other = ([tests[n] for n in worker.given] for worker in workers)
    assert of_one == [test for test in tests if test.split("::")[0] in SHARE]
    assert of_other == [test for test in tests if test.startswith(ALONE[0])]
