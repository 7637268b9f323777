"""Requests about very many resources are put to the controller in pieces."""

import pytest

from kafkad.handlers.controller.requests.pieces import joined, pieces_of
from kafkad.wire import api_table
from kafkad.wire.kio_codec import codec
from tests.handlers.kio_calls import KioApi, versions_of

TOPIC = 2
NAMES = [f"topic-{number}" for number in range(95)]


@pytest.mark.parametrize("version", versions_of(api_table.DESCRIBE_CONFIGS))
def test_who_is_to_be_described_twice_is_described_once(version: int) -> None:
    api = KioApi("describe_configs", version)
    resources = tuple(
        api.part("DescribeConfigsResource", resource_type=TOPIC, resource_name=name, configuration_keys=None)
        for name in NAMES * 50
    )
    body = api.request(resources=resources, include_synonyms=True, include_documentation=False)
    requests = [api.read_request(each) for each in pieces_of(api_table.DESCRIBE_CONFIGS, version, body)]
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
    requests = [api.read_request(each) for each in pieces_of(api_table.DESCRIBE_CONFIGS, version, body)]
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
    requests = [api.read_request(each) for each in pieces_of(api_table.INCREMENTAL_ALTER_CONFIGS, version, body)]
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


@pytest.mark.parametrize("key", [api_table.CREATE_TOPICS, api_table.DESCRIBE_CONFIGS])
def test_others_and_small_ones_go_on_as_they_came(key: int) -> None:
    body = b"\x01\x00\x00\x00"
    assert pieces_of(key, api_table.APIS[key].max_version, memoryview(body)) == [body]
