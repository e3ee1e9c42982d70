"""A cluster told over HTTP what to suffer, as a test in another language does it."""

import http.client
import json
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from odradek.testing.control_server import LARGEST_BODY_BYTES, ControlServer, _Server
from odradek.testing.running_cluster import RunningCluster, running_cluster


class Asking:
    def __init__(self, cluster: RunningCluster, server: ControlServer) -> None:
        self.cluster = cluster
        self.address = server.url.removeprefix("http://")

    def __call__(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        text = (
            body if isinstance(body, str | bytes | Iterator) else None if body is None else json.dumps(body)
        )
        connection.request(method, path, text, headers or {})
        answer = connection.getresponse()
        found = answer.status, json.loads(answer.read())
        connection.close()
        return found


@pytest.fixture(scope="module")
def ask() -> Iterator[Asking]:
    with running_cluster(brokers=3) as cluster, ControlServer(cluster) as server:
        yield Asking(cluster, server)


def test_what_there_is(ask: Asking) -> None:
    status, about = ask("GET", "/")

    assert status == 200
    assert about["bootstrap"] == ask.cluster.bootstrap
    assert about["controller"] in (1, 2, 3)
    assert [broker["id"] for broker in about["brokers"]] == [1, 2, 3]
    assert {broker["address"] for broker in about["brokers"]} == set(ask.cluster.bootstrap.split(","))
    assert {(broker["is_running"], broker["is_paused"]) for broker in about["brokers"]} == {(True, False)}
    assert {"kill", "inject", "advance"} <= set(about["operations"])


def test_a_method_is_called_with_its_arguments_and_says_what_it_returned(ask: Asking) -> None:
    assert ask("POST", "/create_topic", {"name": "called", "partitions": 2, "replication_factor": 3}) == (
        200,
        {"result": None},
    )
    status, leader = ask("POST", "/leader", {"topic": "called", "partition": 1})
    assert (status, leader["result"]) == (200, ask.cluster.leader("called", 1))
    status, isr = ask("POST", "/isr", {"topic": "called"})
    assert sorted(isr["result"]) == [1, 2, 3]


def test_a_broker_is_killed_and_started(ask: Asking) -> None:
    assert ask("POST", "/kill", {"broker_id": 3}) == (200, {"result": None})
    assert [b["is_running"] for b in ask("GET", "/")[1]["brokers"]] == [True, True, False]
    assert ask("POST", "/kill", {"broker_id": 3})[0] == 500
    assert ask("POST", "/start", {"broker_id": 3}) == (200, {"result": None})


def test_a_fault_begins_and_ends_and_says_how_many_requests_it_met(ask: Asking) -> None:
    ask("POST", "/create_topic", {"name": "faulty"})
    _, begun = ask("POST", "/inject", {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2})
    number = begun["id"]
    assert ask("GET", "/")[1]["begun"] == [number]

    producer = Producer({"bootstrap.servers": ask.cluster.bootstrap, "retry.backoff.ms": 10})
    producer.produce("faulty", b"x")
    assert producer.flush(30) == 0

    assert ask("GET", f"/{number}") == (200, {"id": number, "hits": 2})
    assert ask("DELETE", f"/{number}") == (200, {"id": number, "hits": 2})
    assert ask.cluster.cluster.injections.all == ()
    status, gone = ask("DELETE", f"/{number}")
    assert status == 400
    assert "it has ended or was never begun; under way: nothing" in gone["error"]


def test_what_was_begun_ends_with_the_control() -> None:
    with running_cluster(brokers=2) as cluster:
        with ControlServer(cluster) as server:
            ask = Asking(cluster, server)
            ask("POST", "/create_topic", {"name": "faulty", "replication_factor": 2})
            without = next(broker for broker in (1, 2) if broker != cluster.leader("faulty"))
            ask("POST", "/shrink_isr", {"topic": "faulty", "without": without})
            ask("POST", "/inject", {"api": "Produce", "close": True})
            ask("POST", "/paused", {"broker_id": without, "session_ends_after_s": None})
            assert ask("GET", "/")[1]["begun"] == [1, 2, 3]

        assert cluster.cluster.injections.all == ()
        cluster.wait_until(lambda: without in cluster.isr("faulty"), "it is back in the ISR")


def test_silence_begins_in_one_request_and_ends_in_another(ask: Asking) -> None:
    _, begun = ask("POST", "/paused", {"broker_id": 2})
    assert [b["is_paused"] for b in ask("GET", "/")[1]["brokers"]] == [False, True, False]
    ask("DELETE", f"/{begun['id']}")
    assert [b["is_paused"] for b in ask("GET", "/")[1]["brokers"]] == [False, False, False]


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/kil", {}, "/kil: no such operation; did you mean /kill?"),
        ("/bootstrap", {}, "no such operation"),
        ("/_client", {}, "no such operation"),
        ("/kill", {"broker": 1}, "it takes (broker_id: int)"),
        ("/kill", "{", "the body is no JSON"),
        ("/kill", "[1]", "no JSON object"),
        ("/kill", "[" * 60_000, "the body is no JSON"),
        ("/inject", {"api": "Produse", "close": True}, "did you mean Produce?"),
        (
            "/create_topic",
            {"name": "orders", "configs": {"retention.ms": 1000}},
            "1000 is no text; as in a file: '1000'",
        ),
    ],
)
def test_a_wrong_question_is_answered_with_a_sentence(
    ask: Asking, path: str, body: object, sentence: str
) -> None:
    status, answer = ask("POST", path, body)

    assert status == 400
    assert sentence in answer["error"]
    assert ask("GET", "/")[1]["begun"] == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/create_topic", {"name": "orders", "partitions": 10**12}),
        ("/inject", {"api": None, "close": True}),
    ],
)
def test_a_value_of_another_kind_is_answered_too(ask: Asking, path: str, body: object) -> None:
    status, answer = ask("POST", path, body)

    assert status == 500
    assert "rror: " in answer["error"]


def test_a_broker_that_there_is_not_is_a_wrong_question(ask: Asking) -> None:
    for name in ("kill", "start", "stop_in_order", "pause", "paused", "resume"):
        for broker in (4, "1", [1]):
            status, answer = ask("POST", f"/{name}", {"broker_id": broker})
            assert (status, answer) == (
                400,
                {"error": f"there is no broker {broker!r}; there are [1, 2, 3]"},
            ), name
    for name, body in (
        ("shrink_isr", {"topic": "called", "without": 4}),
        ("inject", {"api": "Produce", "close": True, "broker": 4}),
        ("partition", {"ones": [4]}),
    ):
        assert ask("POST", f"/{name}", body)[0] == 400, name
    assert ask("GET", "/")[1]["begun"] == []


def test_a_body_in_chunks_is_read(ask: Asking) -> None:
    assert ask("POST", "/leader", iter([b'{"topic":', b' "none"}']))[1]["error"].startswith("topic none: ")
    status, answer = ask("POST", "/leader", iter([b" " * LARGEST_BODY_BYTES, b" "]))
    assert (status, answer) == (400, {"error": f"chunks: at most {LARGEST_BODY_BYTES} bytes in all"})


@pytest.mark.parametrize("size", ["", "-1", "x", "0x1"])
def test_a_chunk_of_no_size_is_not_read(ask: Asking, size: str) -> None:
    status, answer = ask("POST", "/kill", f"{size}\r\n", {"Transfer-Encoding": "chunked"})

    assert status == 400
    assert "is no size of a chunk" in answer["error"]


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST", "/kill", {}),
        ("POST", "/kill", {"Origin": "null"}),
        ("GET", "/nothing", {}),
        ("PUT", "/kill", {}),
    ],
)
def test_a_refused_body_that_no_socket_takes_at_once_does_not_cost_the_answer(
    ask: Asking, method: str, path: str, headers: dict[str, str]
) -> None:
    status, answer = ask(method, path, b" " * 12_000_000, headers)

    assert 400 <= status < 500
    assert answer["error"]


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS"])
def test_another_method_is_refused_with_those_that_there_are(ask: Asking, method: str) -> None:
    connection = http.client.HTTPConnection(ask.address, timeout=30)
    connection.request(method, "/kill")
    answer = connection.getresponse()

    assert (answer.status, answer.headers["Allow"]) == (405, "GET, POST, DELETE")
    assert json.loads(answer.read()) == {"error": f"{method}: it takes GET, POST and DELETE"}
    connection.close()


def test_whoever_asks_only_for_the_head_gets_no_body(ask: Asking) -> None:
    connection = http.client.HTTPConnection(ask.address, timeout=30)
    connection.request("HEAD", "/")
    answer = connection.getresponse()

    assert (answer.status, answer.read()) == (405, b"")
    connection.close()


@pytest.mark.parametrize(
    "line", [b"GET / HTTP/9.9", b"nonsense", b"GET / x HTTP/1.1", b"GET /" + b"x" * 70_000]
)
def test_what_is_no_request_is_answered_with_a_sentence(ask: Asking, line: bytes) -> None:
    host, port = ask.address.split(":")
    with socket.create_connection((host, int(port)), 30) as connection:
        connection.sendall(line + b"\r\n\r\n")
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece

    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Content-Type: application/json" in head or not head.startswith(b"HTTP"), answer
    assert json.loads(body or head)["error"]


def test_of_whoever_is_gone_before_the_answer_nothing_is_printed(
    ask: Asking, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(_Server, "shutdown_request", lambda server, request: (request.close(), ended.set()))
    host, port = ask.address.split(":")

    connection = socket.create_connection((host, int(port)), 30)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.sendall(b"GET / HTTP/1.1\r\n")
    connection.close()

    assert ended.wait(30)
    assert capfd.readouterr().err == ""


def test_what_does_not_come_about_is_told(ask: Asking) -> None:
    status, answer = ask("POST", "/shrink_isr", {"topic": "nobody", "without": 1})

    assert (status, answer) == (500, {"error": "nobody leads nobody-0"})
    assert ask("GET", "/")[1]["begun"] == []


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://example.org"}, {"Origin": "null"}, {"Host": "example.org:80"}]
)
def test_a_page_in_a_browser_is_refused(ask: Asking, headers: dict[str, str]) -> None:
    status, answer = ask("POST", "/kill", {"broker_id": 1}, headers)

    assert status == 400
    assert "not for pages in a browser" in answer["error"]
    assert 1 in ask.cluster.cluster.runtimes


@pytest.mark.parametrize("size", ["x", "-1", str(LARGEST_BODY_BYTES + 1)])
def test_a_body_of_no_size_or_too_large_is_not_read(ask: Asking, size: str) -> None:
    status, answer = ask("POST", "/kill", b"", {"Content-Length": size})

    assert status == 400
    assert f"Content-Length {size}" in answer["error"]
