"""Topics that can't be: illegal and colliding names, and a broker that still serves what can."""

import struct
from collections.abc import Iterator

import pytest

from tests.daemon.served import Served
from tests.tools.raw_requests import batch, create_topic, metadata, produce, read_produced

INVALID_TOPIC, UNKNOWN_TOPIC, ALREADY_EXISTS, INVALID_PARTITIONS, NONE = 17, 3, 36, 37, 0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


def _created(served: Served, name: str, partitions: int = 1) -> int:
    with served.connect() as client:
        body = client.ask(create_topic(name, partitions))
    # Throttle time, one topic, its name.
    code: int = struct.unpack_from(">h", body, 4 + 4 + 2 + len(name.encode()))[0]
    return code


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "../t", "naïve", "a\0b", "x" * 250, "a\n"])
def test_illegal_name_is_refused_by_creation_and_by_metadata(served: Served, name: str) -> None:
    assert _created(served, name) == INVALID_TOPIC
    with served.connect() as client:
        body = client.ask(metadata([name]))
    assert struct.pack(">h", INVALID_TOPIC) + struct.pack(">h", len(name.encode())) + name.encode() in body


def test_names_that_make_the_same_metric_collide(served: Served) -> None:
    assert _created(served, "some.topic") == NONE
    assert _created(served, "some_topic") == INVALID_TOPIC
    assert _created(served, "some.topic") == ALREADY_EXISTS


@pytest.mark.parametrize("partitions", [0, -2, -(2**31)])
def test_number_of_partitions_that_makes_no_sense_is_refused(served: Served, partitions: int) -> None:
    assert _created(served, "none", partitions) == INVALID_PARTITIONS


def test_first_produce_to_an_unknown_topic_waits_for_metadata_to_create_it(served: Served) -> None:
    with served.connect() as client:
        assert read_produced(client.ask(produce({("fresh", 0): batch()})))["fresh", 0].error == UNKNOWN_TOPIC
        assert b"\x00\x00\x00\x05fresh" in client.ask(metadata(["fresh"]))
        assert read_produced(client.ask(produce({("fresh", 0): batch()})))["fresh", 0] == (NONE, 0)
    served.leaves_nothing_behind()


def test_partition_that_is_not_there_is_unknown(served: Served) -> None:
    with served.connect() as client:
        for partition in (2, 99, -1, 2**31 - 1):
            body = client.ask(produce({("t", partition): batch()}))
            assert read_produced(body)["t", partition].error == UNKNOWN_TOPIC
