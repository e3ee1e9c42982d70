"""What a registry may answer: schemas, refusals, errors, pages of something else, nothing, and all of it slowly."""

import base64
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from select import select
from socket import create_server

import pytest

from odradek.model.errors import ConfigurationError
from odradek.spark.formats import registry as module
from odradek.spark.formats.registry import (
    Reference,
    Registry,
    RegistryUnavailable,
    UnknownSchema,
    shown_url,
)
from tests.spark.formats.registry_server import RegistryServer

HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"


def asked(url: str) -> Registry:
    return Registry(url, timeout_s=60.0, pause_s=0.0)


def test_a_schema_is_asked_for_once(server: RegistryServer) -> None:
    server.has(7, {"type": "string"}, references=[{"name": "a.B", "subject": "b", "version": 3}])
    registry = asked(server.url)

    found = registry.schema(7, "AVRO")
    assert found.text == '{"type": "string"}' and found.references == (Reference("a.B", "b", 3),)
    assert registry.schema(7, "AVRO") == found
    assert server.asked == ["/schemas/ids/7"]


def test_protobuf_is_asked_for_in_the_form_that_needs_no_compiler(server: RegistryServer) -> None:
    server.has(7, "aGk=", kind="PROTOBUF", subject="orders-value")
    registry = asked(server.url + "/")

    registry.schema(7, "PROTOBUF")
    registry.latest("orders-value", "PROTOBUF")

    assert server.asked == [
        "/schemas/ids/7?format=serialized",
        "/subjects/orders-value/versions/latest?format=serialized",
    ]


def test_an_unknown_id_is_believed_for_a_while_and_then_asked_for_again(server: RegistryServer) -> None:
    now = 100.0
    registry = Registry(server.url, pause_s=0.0, clock=lambda: now)
    for _ in range(3):
        with pytest.raises(UnknownSchema, match=f"schema id 7 is not in {server.url}"):
            registry.schema(7, "AVRO")
    assert len(server.asked) == 1
    server.has(7, "string")

    now += module.BELIEVED_S
    assert registry.schema(7, "AVRO").text == "string"


def test_of_very_many_schemas_the_last_are_kept(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values name each that a registry has, if they like, and a process that decodes them lives long."""
    text = '{"type": "string"}'
    monkeypatch.setattr(module, "MOST_KNOWN", 3 * len(text))
    for schema_id in range(5):
        server.has(schema_id, text)
    registry = asked(server.url)

    for schema_id in (0, 1, 2, 3, 4, 2, 3, 4, 1):
        registry.schema(schema_id, "AVRO")

    assert server.asked == [f"/schemas/ids/{schema_id}" for schema_id in (0, 1, 2, 3, 4, 1)]
    monkeypatch.setattr(module, "MOST_KNOWN", 1)
    for schema_id in (0, 0):
        registry.schema(schema_id, "AVRO")
    assert len(server.asked) == 7, "a large one is kept alone"


def test_a_flood_of_ids_that_nobody_knows_is_not_a_flood_of_questions(server: RegistryServer) -> None:
    now = 100.0
    server.has(5_000, {"type": "string"})
    server.has(7, {"type": "string"})
    registry = Registry(server.url, pause_s=0.0, clock=lambda: now)
    registry.schema(7, "AVRO")
    for schema_id in range(1_000, 1_000 + module.MOST_IN_VAIN):
        with pytest.raises(UnknownSchema):
            registry.schema(schema_id, "AVRO")
    before = len(server.asked)

    for schema_id in range(10_000, 12_000):
        with pytest.raises(UnknownSchema, match=f"schema id {schema_id} is taken for unknown"):
            registry.schema(schema_id, "AVRO")

    assert len(server.asked) == before
    registry.schema(7, "AVRO")  # what is known is known
    now += module.BELIEVED_S
    assert registry.schema(5_000, "AVRO").text == '{"type": "string"}'
    with pytest.raises(UnknownSchema):
        registry.schema(10_000, "AVRO")


def test_what_is_known_of_an_id_is_known_of_one_kind_of_schema(server: RegistryServer) -> None:
    """Keys in Protobuf whose bytes name a schema of Avro, say, beside values in Avro."""
    server.has(7, "string")
    server.has(8, "string")
    registry = asked(server.url)
    with pytest.raises(UnknownSchema, match="schema id 7 is AVRO in"):
        registry.schema(7, "PROTOBUF")

    assert [registry.schema(number, "AVRO").text for number in (7, 8)] == ["string"] * 2
    with pytest.raises(UnknownSchema, match="schema id 8 is AVRO in"):
        registry.schema(8, "PROTOBUF")


def test_what_is_too_large_for_an_id_is_no_outage_of_the_registry(server: RegistryServer) -> None:
    """Jersey, on which Confluent's stands, has 404 of its own for a number that is no Integer; bytes of anybody's are taken for one."""
    server.answers["/schemas/ids/2147483648"] = (404, {"error_code": 404, "message": "HTTP 404 Not Found"})

    with pytest.raises(UnknownSchema, match=r"schema id 2147483648 is in no registry: 2147483647 is the"):
        asked(server.url).schema(2**31, "AVRO")
    with pytest.raises(UnknownSchema, match=r"schema id 2147483647 is not in http"):
        asked(server.url).schema(2**31 - 1, "AVRO")


def test_a_schema_of_another_kind_is_not_the_one(server: RegistryServer) -> None:
    server.has(7, "{}", kind="JSON")

    with pytest.raises(UnknownSchema, match=r"schema id 7 is JSON in .*, not AVRO"):
        asked(server.url).schema(7, "AVRO")


@pytest.mark.parametrize(
    ("status", "body", "times", "why"),
    [
        (
            500,
            {"error_code": 50001, "message": "Error in the backend data store"},
            3,
            "it answers 500, .*data store",
        ),
        (503, b"", 3, "it answers 503, and nothing else"),
        (502, HTML, 3, "it answers 502, '<html><body><h1>502 Bad Gateway"),
        (200, HTML, 1, "it answers 200, '<html>"),
        (404, HTML, 1, "it answers 404, '<html>"),
        (401, {"error_code": 401, "message": "Unauthorized"}, 1, "it answers 401, .*Unauthorized"),
        (301, b"", 1, "it answers 301"),
        (200, b'["schema"]', 1, "it answers 200"),
        (200, b"[" * 100_000, 1, "it answers 200"),
        (200, {"id": 7}, 1, "answers without a schema: is it a registry"),
        *(
            (200, {"schema": '"string"', "references": found}, 1, "answers with references that are none")
            for found in ([{}], ["a.B"], [{"name": "a.B", "subject": "b", "version": "newest"}], 7)
        ),
        (200, b'"' + b"x" * (9 << 20), 3, "more than 8 MiB"),
    ],
)
def test_a_registry_that_answers_something_else(
    server: RegistryServer, status: int, body: object, times: int, why: str
) -> None:
    server.answers["/schemas/ids/7"] = (status, body)

    with pytest.raises(RegistryUnavailable, match=why):
        asked(server.url).schema(7, "AVRO")
    assert len(server.asked) == times


def test_the_newest_schema_of_a_subject_is_the_newest_each_time_it_is_asked_for(
    server: RegistryServer,
) -> None:
    registry = asked(server.url)
    for version in (1, 2):
        server.has(6 + version, "string", subject="orders-value", version=version)
        assert registry.latest("orders-value", "AVRO").schema_id == 6 + version


@pytest.mark.parametrize("status", [408, 429])
def test_a_registry_that_wants_to_be_asked_later_is_asked_again(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    server.answers["/schemas/ids/7"] = (status, {"error_code": status, "message": "Too Many Requests"})
    monkeypatch.setattr(module.time, "sleep", lambda _: server.has(7, "string"))

    assert asked(server.url).schema(7, "AVRO").text == "string"
    assert len(server.asked) == 2


def test_a_registry_that_refuses_one_schema_tells_of_the_others(server: RegistryServer) -> None:
    """Confluent's allows subjects, one by one; a 401 it says to all."""
    now = 100.0
    registry = Registry(server.url, pause_s=0.0, clock=lambda: now)
    refusal = {"error_code": 40301, "message": "User is denied operation Read on Subject: orders-value"}
    server.answers["/schemas/ids/7"] = (403, refusal)
    server.has(8, "string")
    for _ in range(2):
        with pytest.raises(RegistryUnavailable, match=r"tell of schema id 7: it answers 403, .*denied"):
            registry.schema(7, "AVRO")

    assert registry.schema(8, "AVRO").text == "string"
    assert len(server.asked) == 2
    server.has(7, "string")
    now += module.BELIEVED_S
    assert registry.schema(7, "AVRO").text == "string"


def test_a_silent_registry_is_not_asked_about_every_id(server: RegistryServer) -> None:
    server.answers |= {f"/schemas/ids/{n}": (500, b"") for n in range(9)}
    now = 100.0
    registry = Registry(server.url, pause_s=0.0, clock=lambda: now)

    for n in range(9):
        with pytest.raises(RegistryUnavailable, match=f"does not tell of schema id {n}: it answers 500"):
            registry.schema(n, "AVRO")
    assert len(server.asked) == module.ATTEMPTS
    server.has(3, "string")
    now += module.BELIEVED_S
    assert registry.schema(3, "AVRO").text == "string"


def test_an_answer_that_drips_ends_at_its_deadline(server: RegistryServer) -> None:
    server.has(7, {"type": "record", "name": "A", "fields": []})
    server.delay_s = 0.1

    with pytest.raises(RegistryUnavailable, match=r"no whole answer within 0.3 s"):
        Registry(server.url, timeout_s=0.3, pause_s=0.0).schema(7, "AVRO")


def test_the_head_of_an_answer_that_drips_ends_at_its_deadline() -> None:
    with create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:

        def drip() -> None:
            for _ in range(module.ATTEMPTS):
                with listener.accept()[0] as connection, suppress(OSError):
                    connection.sendall(b"HTTP/1.1 200 OK\r\n")
                    while not select([connection], [], [], 0.02)[0] or connection.recv(1 << 16):
                        connection.sendall(b"X")

        dripping = pool.submit(drip)
        registry = Registry(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_s=0.3, pause_s=0.0)
        with pytest.raises(RegistryUnavailable, match=r"no whole answer within 0.3 s"):
            registry.schema(7, "AVRO")
        dripping.result()


def test_an_answer_that_is_cut_off_is_asked_for_again(server: RegistryServer) -> None:
    """As by a registry that is stopped meanwhile, or by a proxy whose backend is."""
    server.has(7, "string")
    server.cuts = 1

    assert asked(server.url).schema(7, "AVRO").text == "string"
    assert len(server.asked) == 2


def test_nobody_at_the_address(server: RegistryServer) -> None:
    with pytest.raises(RegistryUnavailable, match=r"the registry http://127.0.0.1:1 does not tell .*refused"):
        asked("http://127.0.0.1:1").schema(7, "AVRO")
    with pytest.raises(RegistryUnavailable, match=r"the registry http://no..host does not tell .*idna"):
        asked("http://no..host").schema(7, "AVRO")


def test_a_password_goes_to_the_registry_and_into_no_message(server: RegistryServer) -> None:
    url = server.url.replace("http://", "http://me:s%40cret@")

    with pytest.raises(UnknownSchema) as caught:
        asked(url).schema(7, "AVRO")

    assert server.authorization == [f"Basic {base64.b64encode(b'me:s@cret').decode()}"]
    assert "cret" not in str(caught.value) and shown_url(url) == server.url


class Block:
    """What a task holds while it asks."""


def test_of_an_unknown_schema_nothing_is_kept_of_who_asked_for_it(server: RegistryServer) -> None:
    """Bytes of anybody's are taken for ten thousand ids, and what asks holds megabytes of records."""
    registry = asked(server.url)

    def asks() -> "weakref.ref[Block]":
        block = Block()
        with suppress(UnknownSchema):
            registry.schema(7, "AVRO")
        return weakref.ref(block)

    blocks = [asks(), asks()]
    gc.collect()

    assert len(server.asked) == 1 and [block() for block in blocks] == [None, None]


@pytest.mark.parametrize(
    "url",
    [
        *("registry:8081", "ftp://host", "http://", "http://host/?a=b"),
        *("http://host:99999", "http://host:port", "http://[::1"),
    ],
)
def test_what_is_no_address_of_a_registry(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is no address of a registry"):
        Registry(url)
