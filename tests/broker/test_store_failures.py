"""The store could not be asked, or did not write: whoever asked the broker hears so, whichever request it was."""

from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker.config_changes import ATTEMPTS
from odradek.broker.topic_config_reader import RETRY_MS
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import ControllerEpoch
from odradek.protocol.messages import alter_client_quotas as acq
from odradek.protocol.messages import alter_configs as ac
from odradek.protocol.messages import create_partitions as cp
from odradek.protocol.messages import create_topics as ct
from odradek.protocol.messages import delete_topics as dt
from odradek.protocol.messages import describe_client_quotas as dcq
from odradek.protocol.messages import describe_configs as dc
from odradek.protocol.messages import describe_user_scram_credentials as scram
from odradek.protocol.messages import incremental_alter_configs as iac
from odradek.protocol.messages import update_features as uf
from tests.broker.configs import SET, TOPIC
from tests.broker.topics import topic
from tests.broker.world import World

Rows = Callable[[Any], list[Any]]

QUOTAS = acq.AlterClientQuotasRequest(
    entries=[
        acq.AlterClientQuotasRequestEntryData(
            entity=[acq.EntityData(entity_type="user", entity_name="ann")],
            ops=[acq.OpData(key="producer_byte_rate", value=1000.0)],
        )
    ]
)
CONFIGS = ac.AlterConfigsRequest(
    resources=[
        ac.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name="t",
            configs=[ac.AlterableConfig(name="retention.ms", value="5")],
        )
    ]
)
SINGLE_CONFIGS = iac.IncrementalAlterConfigsRequest(
    resources=[
        iac.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name="t",
            configs=[iac.AlterableConfig(name="retention.ms", config_operation=SET, value="5")],
        )
    ]
)
# Request, version, and where in the answer the error and its words are.
REQUESTS: dict[str, tuple[Any, int, Rows]] = {
    "CreateTopics": (ct.CreateTopicsRequest(topics=[topic("new")]), 7, lambda a: a.topics),
    "DeleteTopics": (
        dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name="t")]),
        6,
        lambda a: a.responses,
    ),
    "CreatePartitions": (
        cp.CreatePartitionsRequest(topics=[cp.CreatePartitionsTopic(name="t", count=2, assignments=None)]),
        3,
        lambda a: a.results,
    ),
    "DescribeConfigs": (
        dc.DescribeConfigsRequest(
            resources=[dc.DescribeConfigsResource(resource_type=TOPIC, resource_name="t")]
        ),
        4,
        lambda a: a.results,
    ),
    "AlterConfigs": (CONFIGS, 2, lambda a: a.responses),
    "IncrementalAlterConfigs": (SINGLE_CONFIGS, 1, lambda a: a.responses),
    "DescribeClientQuotas": (dcq.DescribeClientQuotasRequest(), 1, lambda a: [a]),
    "AlterClientQuotas": (QUOTAS, 1, lambda a: a.entries),
    "DescribeUserScramCredentials": (
        scram.DescribeUserScramCredentialsRequest(users=None),
        0,
        lambda a: [a],
    ),
    "UpdateFeatures": (
        uf.UpdateFeaturesRequest(feature_updates=[uf.FeatureUpdateKey(feature="f", max_version_level=1)]),
        1,
        lambda a: [a],
    ),
}


# What none of them asks for.
SOMETHING_ELSE = fx.ControlEpochs(ControllerEpoch(1), None)


def asked(world: World) -> list[fx.StoreRequest]:
    """Also what a world would answer by itself."""
    return [effect for effect in world[1].broker.take_effects() if isinstance(effect, fx.StoreRequest)]


def answer_store(world: World, answer: Callable[[Any], Any]) -> None:
    (request,) = asked(world)
    world[1].broker.answered(request.request_id, answer(request.question), world.now_ms)


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (fx.StoreFailed("session lost"), "session lost"),
        (SOMETHING_ELSE, "the store answered something else"),
    ],
    ids=["failed", "something else"],
)
@pytest.mark.parametrize("name", REQUESTS)
def test_a_store_that_cannot_be_asked_is_an_answer(world: World, name: str, result: Any, reason: str) -> None:
    request, version, rows = REQUESTS[name]
    pending = world.send(1, request, version)

    answer_store(world, lambda question: result)

    (row,) = rows(pending.message)
    assert (row.error_code, row.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, reason)


def nothing_stored(question: fx.ReadConfigs) -> fx.ConfigsRead:
    return fx.ConfigsRead({entity: fx.StoredConfig({}, -1) for entity in question.entities})


@pytest.mark.parametrize("name", ["AlterConfigs", "IncrementalAlterConfigs", "AlterClientQuotas"])
@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (fx.StoreFailed("session lost"), "session lost"),
        (SOMETHING_ELSE, "the store answered something else"),
        (fx.ConfigsWritten(("the node is too large",)), "the node is too large"),
    ],
    ids=["failed", "something else", "refused"],
)
def test_what_the_store_does_not_write_is_an_answer(
    world: World, name: str, result: Any, reason: str
) -> None:
    request, version, rows = REQUESTS[name]
    pending = world.send(1, request, version)

    answer_store(world, nothing_stored)
    answer_store(world, lambda question: result)

    (row,) = rows(pending.message)
    assert (row.error_code, row.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, reason)


@pytest.mark.parametrize("name", ["AlterConfigs", "IncrementalAlterConfigs", "AlterClientQuotas"])
def test_what_others_keep_changing_is_tried_a_few_times(world: World, name: str) -> None:
    request, version, rows = REQUESTS[name]
    pending = world.send(1, request, version)

    for _ in range(ATTEMPTS):
        assert not pending.is_answered
        answer_store(world, nothing_stored)
        answer_store(world, lambda question: fx.ConfigsWritten(("conflict",)))

    (row,) = rows(pending.message)
    assert row.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert row.error_message == "others keep changing it; try again"
    assert asked(world) == []


def test_what_is_set_of_a_topic_is_asked_again_after_a_pause_while_the_store_cannot_be_asked(
    world: World,
) -> None:
    world.lead(1, topic="new", tell=[1], is_new=True, settle=False)
    answer_store(world, lambda question: fx.StoreFailed("session lost"))

    world[1].broker.tick(world.now_ms + RETRY_MS - 1)
    assert asked(world) == []
    world[1].broker.tick(world.now_ms + RETRY_MS)
    (again,) = asked(world)
    assert again.question == fx.ReadConfigs((("topics", "new"),))
