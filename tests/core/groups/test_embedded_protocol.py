"""What members say in the "consumer" embedded protocol; `test_migration.py` has what groups make of it."""

from struct import pack

import pytest

from kafkad.core.groups.embedded_protocol import (
    MAX_ELEMENTS,
    MalformedProtocol,
    TopicLists,
    read_assignment,
    read_subscription,
    read_version,
)


def subscription(names: int, owned: int = 0) -> bytes:
    """Names without letters, and partitions of one topic."""
    topics = pack(">hi", 1, names) + bytes(2 * names) + pack(">i", -1)
    return topics + pack(">ihc", 1, 1, b"t") + pack(">i", owned) + bytes(4 * owned)


def assignment(partitions: int) -> bytes:
    return pack(">hihci", 1, 1, 1, b"t", partitions) + bytes(4 * partitions) + pack(">i", -1)


def test_the_arrays_of_a_subscription_have_a_limit_together() -> None:
    most = MAX_ELEMENTS - 1  # the topic that is owned is one
    assert read_subscription(subscription(most - 5, 5)).owned == {"t": frozenset([0])}
    for too_many in (subscription(most + 1), subscription(most, 1), subscription(0, most + 1)):
        with pytest.raises(MalformedProtocol, match="100000 elements"):
            read_subscription(too_many)


def test_the_arrays_of_an_assignment_have_a_limit_together() -> None:
    assert read_assignment(assignment(MAX_ELEMENTS - 1)).partitions == {"t": frozenset([0])}
    with pytest.raises(MalformedProtocol, match="100000 elements"):
        read_assignment(assignment(MAX_ELEMENTS))


def naming(version: int, *topics: str) -> bytes:
    """A subscription to these topics."""
    names = b"".join(pack(">h", len(topic)) + topic.encode() for topic in topics)
    return pack(">hi", version, len(topics)) + names + pack(">i", -1) + (pack(">i", 0) if version else b"")


def test_members_that_name_the_same_topics_share_one_list() -> None:
    lists = TopicLists()
    said = [naming(1, "b", "a"), naming(0, "b", "a"), naming(1, "b"), naming(1, "b", "a", "c"), naming(1)]
    read = [read_subscription(each, lists) for each in said]
    assert read == [read_subscription(each) for each in said]
    assert read[0].topics is read[1].topics
    others = [read_subscription(naming(1, f"t{number}"), lists).topics for number in range(100)]
    assert others == [(f"t{number}",) for number in range(100)]


def test_a_subscription_that_ends_in_its_topics_is_malformed_whoever_else_names_them() -> None:
    lists = TopicLists()
    whole = naming(1, "b", "a")
    read_subscription(whole, lists)
    for size in range(len(whole)):
        with pytest.raises(MalformedProtocol):
            read_subscription(whole[:size], lists)


def test_the_version_is_read_without_the_rest() -> None:
    assert read_version(naming(3, "a")[:2]) == 3
    with pytest.raises(MalformedProtocol):
        read_version(b"\0")
