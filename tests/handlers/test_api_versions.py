"""ApiVersions in every version, the unknown ones included."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafkad.core.controller.image import MetadataImage
from kafkad.handlers import api_versions
from kafkad.handlers.api_versions import NOTHING_FINALIZED, Finalized, finalized
from kafkad.wire.api_table import API_VERSIONS, APIS
from kafkad.wire.primitives import MalformedRequest
from tests.handlers.kio_calls import KioApi, versions_of

VERSIONS = versions_of(API_VERSIONS)
HEADER = b"header"
RANGES = {api.key: (api.advertised_min, api.max_version) for api in APIS.values()}


def ask(
    version: int,
    name: str = "librdkafka",
    software_version: str = "2.3.0-RC1",
    features: Finalized = NOTHING_FINALIZED,
) -> Any:
    api = KioApi("api_versions", version)
    body = bytes(api.request(client_software_name=name, client_software_version=software_version))
    return api.read(api_versions.handle(memoryview(HEADER + body), len(HEADER), version, features))


def ranges(response: Any) -> dict[int, tuple[int, int]]:
    return {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_api_table_is_told_in_every_version(version: int) -> None:
    response = ask(version)
    assert response.error_code is ErrorCode.none
    assert ranges(response) == RANGES
    assert [row.api_key for row in response.api_keys] == sorted(RANGES)


@pytest.mark.parametrize("version", [5, 99, -1])
def test_an_unknown_version_is_answered_so_that_anybody_can_read_it(version: int) -> None:
    body = api_versions.handle(memoryview(HEADER + b"\xff\xff"), len(HEADER), version)
    response = KioApi("api_versions", 0).read(body)
    assert response.error_code is ErrorCode.unsupported_version
    assert ranges(response) == {API_VERSIONS: RANGES[API_VERSIONS]}


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(
    ("name", "software_version"),
    [("", "1"), ("name", ""), ("-name", "1"), ("name", "1."), ("na me", "1"), ("näme", "1"), ("name\n", "1")],
)
def test_software_that_can_not_be_named_so_is_refused(version: int, name: str, software_version: str) -> None:
    response = ask(version, name, software_version)
    assert (response.error_code, response.api_keys) == (ErrorCode.invalid_request, ())


@pytest.mark.parametrize("version", [3, 4])
def test_a_request_cut_off_is_malformed(version: int) -> None:
    with pytest.raises(MalformedRequest):
        api_versions.handle(memoryview(HEADER + b"\x05abc"), len(HEADER), version)


@pytest.mark.parametrize("version", [3, 4])
def test_finalized_features_are_told_with_their_epoch(version: int) -> None:
    image = MetadataImage(features={"transaction.version": 2}, features_epoch=7)
    response = ask(version, features=finalized(image))
    (feature,) = response.finalized_features
    assert (feature.name, feature.max_version_level, feature.min_version_level) == ("transaction.version", 2, 2)
    assert response.finalized_features_epoch == 7
    # Clients before version 4 can't read a feature whose lowest level is 0.
    supported = [(row.name, row.min_version, row.max_version) for row in response.supported_features]
    assert supported == ([("group.version", 0, 1), ("transaction.version", 0, 2)] if version >= 4 else [])


@pytest.mark.parametrize("version", [3, 4])
def test_before_there_is_metadata_nothing_is_finalized(version: int) -> None:
    response = ask(version, features=finalized(MetadataImage()))
    assert (response.finalized_features, response.finalized_features_epoch) == ((), -1)
