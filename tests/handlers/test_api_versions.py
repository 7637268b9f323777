"""ApiVersions in every version, the unknown ones included."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafkad.core.controller.image import MetadataImage
from kafkad.core.request_context import UNKNOWN_SOFTWARE, ClientInformation
from kafkad.handlers import api_versions
from kafkad.handlers.api_versions import MAX_SOFTWARE_LENGTH, client_information
from kafkad.wire.api_table import API_VERSIONS, APIS
from kafkad.wire.primitives import MalformedRequest
from tests.contexts import a_context
from tests.handlers.kio_calls import KioApi, versions_of
from tests.handlers.views import a_view

VERSIONS = versions_of(API_VERSIONS)
NO_METADATA = MetadataImage()
RANGES = {api.key: (api.advertised_min, api.max_version) for api in APIS.values()}


def ask(
    version: int,
    name: str = "librdkafka",
    software_version: str = "2.3.0-RC1",
    image: MetadataImage = NO_METADATA,
) -> Any:
    api = KioApi("api_versions", version)
    view = a_view()
    view.image = image
    return api.read(api_versions.handle(request(version, name, software_version), a_context(version), view))


def request(version: int, name: str, software_version: str) -> memoryview:
    api = KioApi("api_versions", version)
    return api.request(client_software_name=name, client_software_version=software_version)


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
    body = api_versions.handle(memoryview(b"\xff\xff"), a_context(version), a_view())
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


@pytest.mark.parametrize("version", [*VERSIONS, 5])
def test_the_software_is_known_to_who_asks_from_version_3_on(version: int) -> None:
    known = ClientInformation("librdkafka", "2.3.0-RC1") if version in (3, 4) else UNKNOWN_SOFTWARE
    assert client_information(request(min(version, 4), "librdkafka", "2.3.0-RC1"), version) == known


def test_of_a_long_name_no_more_is_kept_than_tells_clients_apart() -> None:
    known = client_information(request(4, "n" * 10_000, "1" * 10_000), 4)
    assert known == ClientInformation("n" * MAX_SOFTWARE_LENGTH, "1" * MAX_SOFTWARE_LENGTH)


@pytest.mark.parametrize("version", [3, 4])
def test_a_request_cut_off_is_malformed(version: int) -> None:
    with pytest.raises(MalformedRequest):
        api_versions.handle(memoryview(b"\x05abc"), a_context(version), a_view())


@pytest.mark.parametrize("version", [3, 4])
def test_finalized_features_are_told_with_their_epoch(version: int) -> None:
    image = MetadataImage(features={"transaction.version": 2}, features_epoch=7)
    response = ask(version, image=image)
    (feature,) = response.finalized_features
    assert (feature.name, feature.max_version_level, feature.min_version_level) == ("transaction.version", 2, 2)
    assert response.finalized_features_epoch == 7
    # Clients before version 4 can't read a feature whose lowest level is 0.
    supported = [(row.name, row.min_version, row.max_version) for row in response.supported_features]
    assert supported == ([("group.version", 0, 1), ("transaction.version", 0, 2)] if version >= 4 else [])


@pytest.mark.parametrize("version", [3, 4])
def test_before_there_is_metadata_nothing_is_finalized(version: int) -> None:
    response = ask(version)
    assert (response.finalized_features, response.finalized_features_epoch) == ((), -1)
