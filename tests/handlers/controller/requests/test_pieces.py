"""Requests about very many resources are put to the controller in pieces."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from kafkad.handlers.controller.requests.apis_of_controller import DISPATCH
from kafkad.handlers.controller.requests.pieces import joined, pieces_of, pieces_of_names
from kafkad.wire import api_table
from kafkad.wire.kio_codec import codec
from tests.contexts import a_context
from tests.core.controller.world import World
from tests.handlers.controller.test_handlers import Client
from tests.handlers.kio_calls import KioApi, versions_of

TOPIC = 2
SECOND = timedelta(seconds=1)
NAMES = [f"topic-{number}" for number in range(95)]


def cut(api_key: int, version: int, body: memoryview, world: World | None = None) -> list[bytes]:
    """The bodies of the pieces."""
    if world is None:
        world = World()
        world.start()
    return [body() for body in pieces_of(api_key, version, body, world.controller).bodies]


@pytest.mark.parametrize("version", versions_of(api_table.DESCRIBE_CONFIGS))
def test_who_is_to_be_described_twice_is_described_once(version: int) -> None:
    api = KioApi("describe_configs", version)
    resources = tuple(
        api.part("DescribeConfigsResource", resource_type=TOPIC, resource_name=name, configuration_keys=None)
        for name in NAMES * 50
    )
    body = api.request(resources=resources, include_synonyms=True, include_documentation=False)
    requests = [api.read_request(each) for each in cut(api_table.DESCRIBE_CONFIGS, version, body)]
    assert [each.resource_name for request in requests for each in request.resources] == NAMES
    assert {request.include_synonyms for request in requests} == {True}
    assert max(len(request.resources) for request in requests) <= 10


@pytest.mark.parametrize("version", versions_of(api_table.DESCRIBE_CONFIGS))
def test_one_that_is_described_with_very_many_keys_is_in_many_pieces(version: int) -> None:
    api = KioApi("describe_configs", version)
    resources = tuple(
        api.part("DescribeConfigsResource", resource_type=TOPIC, resource_name="topic", configuration_keys=(key,))
        for key in NAMES
    )
    body = api.request(resources=resources, include_synonyms=True, include_documentation=False)
    requests = [api.read_request(each) for each in cut(api_table.DESCRIBE_CONFIGS, version, body)]
    assert tuple(each for request in requests for each in request.resources) == resources
    assert max(len(request.resources) for request in requests) <= 10


@pytest.mark.parametrize("version", versions_of(api_table.INCREMENTAL_ALTER_CONFIGS))
def test_one_that_is_altered_twice_is_in_one_piece(version: int) -> None:
    """It may be refused for that."""
    api = KioApi("incremental_alter_configs", version)
    resources = tuple(
        api.part("AlterConfigsResource", resource_type=TOPIC, resource_name=name, configs=()) for name in NAMES * 2
    )
    body = api.request(resources=resources, validate_only=True)
    requests = [api.read_request(each) for each in cut(api_table.INCREMENTAL_ALTER_CONFIGS, version, body)]
    seen = [each.resource_name for request in requests for each in request.resources]
    assert sorted(seen) == sorted(NAMES * 2)
    assert all(
        len({each.resource_name for each in request.resources}) * 2 == len(request.resources) for request in requests
    )
    assert {request.validate_only for request in requests} == {True}


@pytest.mark.parametrize("version", versions_of(api_table.ALTER_CONFIGS))
def test_the_answers_of_the_pieces_are_one(version: int) -> None:
    messages = codec("alter_configs", version)
    parts = [
        messages.part(
            "AlterConfigsResourceResponse", error_code=0, error_message=None, resource_type=TOPIC, resource_name=name
        )
        for name in NAMES
    ]
    answers = [messages.encode(responses=tuple(parts[at : at + 10])) for at in range(0, len(parts), 10)]
    assert joined(api_table.ALTER_CONFIGS, version, answers) == messages.encode(responses=tuple(parts))


def answers_of(key: int, api: KioApi, body: memoryview, *, is_cut: bool) -> Any:
    """What is answered to a request on a broker with some topics, if it is cut, or as a whole."""
    client = Client()
    for name, partitions in (("there", 1), ("there.too", 2)):
        client.world.create(name, partitions=partitions)
    bodies = cut(key, api.version, body, client.world) if is_cut else [bytes(body)]
    assert len(bodies) > 1 or not is_cut
    answers = [DISPATCH[key](memoryview(each), a_context(api.version), client.view) for each in bodies]
    answer = api.read(joined(key, api.version, [each if isinstance(each, bytes) else each.body for each in answers]))
    return answer, {name: len(topic.partitions) for name, topic in client.world.controller.image.topics.items()}


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("version", versions_of(api_table.CREATE_TOPICS))
def test_topics_are_created_in_pieces_as_by_one_request(version: int, validate_only: bool) -> None:
    """With names that are there, named twice, colliding with another one or illegal, wherever the request is cut."""
    api = KioApi("create_topics", version)
    names = [*NAMES, "a.b", "twice", "there", *(f"other-{number}" for number in range(95)), "a_b", "there_too"]
    names += ["__cluster_metadata", "twice", "not legal", "last"]
    topics = tuple(
        api.part(
            "CreatableTopic",
            name=name,
            num_partitions=0 if name == "other-7" else 2,
            replication_factor=2 if name == "other-8" else 1,
            assignments=(),
            configs=(
                api.part("CreatableTopicConfig", name="no.such" if name == "other-9" else "retention.ms", value="1"),
            ),
        )
        for name in names
    )
    body = api.request(topics=topics, timeout=SECOND, validate_only=validate_only)
    in_pieces, made_in_pieces = answers_of(api_table.CREATE_TOPICS, api, body, is_cut=True)
    whole, made = answers_of(api_table.CREATE_TOPICS, api, body, is_cut=False)
    assert made_in_pieces == made
    assert len(made) == 2 if validate_only else len(made) > 190

    def rows(answer: Any) -> list[Any]:
        without_ids = [replace(each, topic_id=None) if version >= 7 else each for each in answer.topics]
        return sorted(without_ids, key=lambda each: str(each.name)) if validate_only else without_ids

    assert rows(in_pieces) == rows(whole)
    assert sum(each.error_code != 0 for each in whole.topics) == 9


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("version", versions_of(api_table.CREATE_PARTITIONS))
def test_partitions_are_added_in_pieces_as_by_one_request(version: int, validate_only: bool) -> None:
    key, api = api_table.CREATE_PARTITIONS, KioApi("create_partitions", version)
    wanted = [("unknown", 3), ("there", 100), ("twice", 3), ("there.too", 90), ("twice", 3)]
    topics = tuple(
        api.part("CreatePartitionsTopic", name=name, count=count, assignments=None) for name, count in wanted
    )
    body = api.request(topics=topics, timeout=SECOND, validate_only=validate_only)
    assert answers_of(key, api, body, is_cut=True) == answers_of(key, api, body, is_cut=False)


@pytest.mark.parametrize("version", versions_of(api_table.DELETE_TOPICS))
def test_topics_are_deleted_in_pieces_as_by_one_request(version: int) -> None:
    """Also one that is named twice, by its name and by its id."""
    api, made = KioApi("delete_topics", version), [f"topic-{number}" for number in range(1_100)]

    def answered(*, is_cut: bool) -> tuple[Any, set[str], list[int]]:
        client = Client()
        client.world.create(*made)
        topics = client.world.controller.image.topics
        names = [*made[:550], "unknown", "unknown", *made[550:1_050], "topic-3"]
        by_id = [topics["topic-4"].id, UUID(int=1 << 100), topics["topic-1060"].id]
        if version >= 6:
            entries = [api.part("DeleteTopicState", name=name, topic_id=None) for name in names]
            entries += [api.part("DeleteTopicState", name=None, topic_id=topic_id) for topic_id in by_id]
            body = api.request(topics=tuple(entries), timeout=SECOND)
        else:
            body = api.request(topic_names=tuple(names), timeout=SECOND)
        bodies = cut(api_table.DELETE_TOPICS, version, body, client.world) if is_cut else [bytes(body)]
        handle = DISPATCH[api_table.DELETE_TOPICS]
        answers = [handle(memoryview(each), a_context(version), client.view) for each in bodies]
        joint = joined(
            api_table.DELETE_TOPICS, version, [each if isinstance(each, bytes) else each.body for each in answers]
        )
        rows = sorted(api.read(joint).responses, key=lambda each: (str(each.name), each.error_code))
        return rows, set(client.world.controller.image.topics), [len(each) for each in bodies]

    in_pieces, left_in_pieces, sizes = answered(is_cut=True)
    whole, left, _ = answered(is_cut=False)
    assert len(sizes) == 3
    assert left_in_pieces == left
    assert len(left) == 51
    assert in_pieces == whole


def test_a_piece_creates_a_hundred_partitions_or_one_topic() -> None:
    api = KioApi("create_topics", 7)
    wanted = [("large", 1_000), ("a", 60), ("b", -1), ("c", 39), ("d", 1), ("by hand", 3)]
    topics = tuple(
        api.part(
            "CreatableTopic",
            name=name,
            num_partitions=-1 if name == "by hand" else partitions,
            replication_factor=-1,
            assignments=tuple(
                api.part("CreatableReplicaAssignment", partition_index=index, broker_ids=(1,))
                for index in range(partitions if name == "by hand" else 0)
            ),
            configs=(),
        )
        for name, partitions in wanted
    )
    bodies = cut(api_table.CREATE_TOPICS, 7, api.request(topics=topics, timeout=SECOND, validate_only=False))
    names = [[each.name for each in api.read_request(body).topics] for body in bodies]
    assert names == [["large"], ["a", "b", "c"], ["d", "by hand"]]


@pytest.mark.parametrize("key", [api_table.CREATE_TOPICS, api_table.CREATE_PARTITIONS])
def test_one_with_too_many_partitions_is_refused_as_a_whole(key: int) -> None:
    world = World()
    world.start()
    for name in NAMES:
        world.create(name)
    if key == api_table.CREATE_TOPICS:
        api = KioApi("create_topics", 7)
        rows = tuple(
            api.part(
                "CreatableTopic", name=f"{name}-2", num_partitions=106, replication_factor=1, assignments=(), configs=()
            )
            for name in NAMES
        )
    else:
        api = KioApi("create_partitions", 3)
        rows = tuple(api.part("CreatePartitionsTopic", name=name, count=107, assignments=None) for name in NAMES)
    body = api.request(topics=rows, timeout=SECOND, validate_only=False)
    assert cut(key, api.version, body, world) == [body]
    names = [f"new-{number}" for number in range(10_001)]
    assert pieces_of_names(names, world.controller) == [names]
    assert [len(piece) for piece in pieces_of_names(names[:250], world.controller)] == [100, 100, 50]


@pytest.mark.parametrize("key", [api_table.ELECT_LEADERS, api_table.DESCRIBE_CONFIGS])
def test_others_and_small_ones_go_on_as_they_came(key: int) -> None:
    body = b"\x01\x00\x00\x00"
    assert cut(key, api_table.APIS[key].max_version, memoryview(body)) == [body]
