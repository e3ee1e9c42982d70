"""Finalised features: what ApiVersions says of them, and UpdateFeatures (KIP-584)."""

from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker.features import change
from odradek.broker.handlers.update_features import ATTEMPTS
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.messages import api_versions as av
from odradek.protocol.messages import update_features as uf
from tests.broker.world import Pending, World, told

TABLE = {"f": (1, 5)}


def api_versions(world: World) -> Any:
    return world.call(1, av.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)


def test_api_versions_tells_what_stands_in_the_node(world: World) -> None:
    answer = api_versions(world)
    assert (answer.supported_features, answer.finalized_features, answer.finalized_features_epoch) == (
        [],
        [],
        -1,
    )
    world[1].broker.features_changed({}, 0)
    assert api_versions(world).finalized_features_epoch == 0
    world[1].broker.features_changed({"theirs": 3}, 4)
    answer = api_versions(world)
    (row,) = answer.finalized_features
    assert (row.name, row.max_version_level, answer.finalized_features_epoch) == ("theirs", 3, 4)
    (line,) = told(world, fx.LogLine)
    assert "theirs 3" in line.text


@pytest.mark.parametrize(
    ("name", "level", "kind", "expected"),
    [
        ("f", 5, 1, {"f": 5, "g": 1}),
        ("f", 3, 1, {"f": 3, "g": 1}),
        ("f", 2, 2, {"f": 2, "g": 1}),
        ("f", 0, 2, {"g": 1}),
        ("g", 0, 3, {"f": 3}),
        ("", 1, 1, "can not be empty"),
        ("f", 0, 1, "less than 1 without setting the SAFE downgradeType"),
        ("h", 0, 2, "Can not delete non-existing finalized feature."),
        ("h", 1, 1, "the provided feature is not supported"),
        ("f", 6, 1, "lies outside 1 to 5"),
        ("f", 2, 1, "Can not downgrade finalized feature from existing maxVersionLevel:3"),
        ("f", 4, 2, "can not be greater than existing maxVersionLevel:3"),
        ("f", 4, 0, "Unknown upgrade type 0"),
    ],
)
def test_a_level_goes_up_freely_and_down_when_that_is_asked_for(
    name: str, level: int, kind: int, expected: dict[str, int] | str
) -> None:
    if isinstance(expected, str):
        with pytest.raises(ProtocolError, match=expected):
            change({"f": 3, "g": 1}, name, level, kind, TABLE)
    else:
        assert change({"f": 3, "g": 1}, name, level, kind, TABLE) == expected


def update(world: World, *updates: uf.FeatureUpdateKey, version: int = 1, **options: Any) -> Pending:
    return world.send(1, uf.UpdateFeaturesRequest(feature_updates=list(updates), **options), version)


def answer_store(world: World, result: Any) -> Any:
    (request,) = told(world, fx.StoreRequest)
    world[1].broker.answered(request.request_id, result, world.now_ms)
    return request.question


def test_what_another_finalised_can_be_taken_out_and_the_rest_is_refused(world: World) -> None:
    asked = update(
        world,
        uf.FeatureUpdateKey(feature="theirs", max_version_level=0, upgrade_type=2),
        uf.FeatureUpdateKey(feature="new", max_version_level=1),
    )
    answer_store(world, fx.FeaturesRead({"theirs": 3}, 7))
    question = answer_store(world, fx.ConfigsWritten(("conflict",)))
    assert question == fx.WriteFeatures({}, 7)
    answer_store(world, fx.FeaturesRead({"theirs": 3, "more": 1}, 8))
    question = answer_store(world, fx.ConfigsWritten(("stored",)))
    assert question == fx.WriteFeatures({"more": 1}, 8)
    answer = asked.message
    assert answer.error_code == 0
    assert [(r.feature, r.error_code) for r in answer.results] == [
        ("theirs", 0),
        ("new", ErrorCode.INVALID_REQUEST),
    ]
    assert "not supported" in answer.results[1].error_message


def test_the_oldest_version_has_a_flag_for_downgrades(world: World) -> None:
    for allow, error in ((True, 0), (False, ErrorCode.INVALID_REQUEST)):
        row = uf.FeatureUpdateKey(feature="theirs", max_version_level=0, allow_downgrade=allow)
        asked = update(world, row, version=0)
        answer_store(world, fx.FeaturesRead({"theirs": 3}, 7))
        if allow:
            answer_store(world, fx.ConfigsWritten(("stored",)))
        assert asked.message.results[0].error_code == error


def test_only_validated_features_are_not_written(world: World) -> None:
    row = uf.FeatureUpdateKey(feature="theirs", max_version_level=0, upgrade_type=3)
    asked = update(world, row, validate_only=True)
    answer_store(world, fx.FeaturesRead({"theirs": 3}, 7))
    assert asked.message.results[0].error_code == 0
    assert told(world, fx.StoreRequest) == []


def test_the_store_may_fail_and_others_may_keep_changing_the_node(world: World) -> None:
    row = uf.FeatureUpdateKey(feature="theirs", max_version_level=0, upgrade_type=3)
    asked = update(world, row)
    answer_store(world, fx.StoreFailed("session lost"))
    assert (asked.message.error_code, asked.message.error_message) == (-1, "session lost")
    asked = update(world, row)
    answer_store(world, fx.FeaturesRead({"theirs": 3}, 7))
    answer_store(world, fx.StoreFailed("session lost"))  # who knows whether it is written
    assert (asked.message.error_code, asked.message.error_message) == (-1, "session lost")
    asked = update(world, row)
    for _ in range(ATTEMPTS):
        assert not asked.is_answered
        answer_store(world, fx.FeaturesRead({"theirs": 3}, 7))
        answer_store(world, fx.ConfigsWritten(("conflict",)))
    assert asked.message.error_code == ErrorCode.FEATURE_UPDATE_FAILED
    assert asked.message.error_message == "others keep changing /feature; try again"
    assert told(world, fx.StoreRequest) == []


@pytest.mark.parametrize(
    ("members", "refused"),
    [
        ({1: {"transaction.version": 2}, 2: {"transaction.version": 3}}, None),
        (
            {1: {"transaction.version": 2}, 7: {}, 5: {"transaction.version": 1}},
            "transaction.version 2: 5, 7.",
        ),
    ],
)
def test_a_level_is_finalised_when_every_registered_broker_knows_it(
    world: World, members: dict[int, dict[str, int]], refused: str | None
) -> None:
    asked = update(world, uf.FeatureUpdateKey(feature="transaction.version", max_version_level=2))

    answer_store(world, fx.FeaturesRead({}, 7, members))
    if refused is None:
        question = answer_store(world, fx.ConfigsWritten(("stored",)))
        assert question == fx.WriteFeatures({"transaction.version": 2}, 7)

    (row,) = asked.message.results
    assert row.error_code == (ErrorCode.NONE if refused is None else ErrorCode.INVALID_REQUEST)
    assert refused is None or row.error_message.endswith(refused)


def test_a_level_is_taken_out_whoever_is_registered(world: World) -> None:
    asked = update(
        world, uf.FeatureUpdateKey(feature="transaction.version", max_version_level=0, upgrade_type=2)
    )
    answer_store(world, fx.FeaturesRead({"transaction.version": 2}, 7, {9: {}}))
    assert answer_store(world, fx.ConfigsWritten(("stored",))) == fx.WriteFeatures({}, 7)
    assert asked.message.results[0].error_code == 0


@pytest.mark.parametrize(("finalised", "level"), [({}, 0), ({"transaction.version": 2}, 2), ({"x": 2}, 0)])
def test_what_is_finalised_is_what_counts(world: World, finalised: dict[str, int], level: int) -> None:
    world[1].broker.features_changed(finalised, 1)
    assert world[1].broker.transaction_version == level


def test_a_level_beyond_the_known_ones_is_told_and_acts_as_the_highest(world: World) -> None:
    world[1].broker.features_changed({"transaction.version": 7}, 1)
    (line,) = told(world, fx.LogLine)
    assert "transaction.version 7" in line.text
    assert world[1].broker.transaction_version == 2
