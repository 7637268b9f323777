"""What members say in the "consumer" embedded protocol; `test_migration.py` has what groups make of it."""

from struct import pack

import pytest

from kafkad.core.groups.embedded_protocol import MOST_ELEMENTS, MalformedProtocol, read_assignment, read_subscription


def subscription(names: int, owned: int = 0) -> bytes:
    """Names without letters, and partitions of one topic."""
    topics = pack(">hi", 1, names) + bytes(2 * names) + pack(">i", -1)
    return topics + pack(">ihc", 1, 1, b"t") + pack(">i", owned) + bytes(4 * owned)


def assignment(partitions: int) -> bytes:
    return pack(">hihci", 1, 1, 1, b"t", partitions) + bytes(4 * partitions) + pack(">i", -1)


def test_the_arrays_of_a_subscription_have_a_limit_together() -> None:
    most = MOST_ELEMENTS - 1  # the topic that is owned is one
    assert read_subscription(subscription(most - 5, 5)).owned == {"t": frozenset([0])}
    for too_many in (subscription(most + 1), subscription(most, 1), subscription(0, most + 1)):
        with pytest.raises(MalformedProtocol, match="100000 elements"):
            read_subscription(too_many)


def test_the_arrays_of_an_assignment_have_a_limit_together() -> None:
    assert read_assignment(assignment(MOST_ELEMENTS - 1)).partitions == {"t": frozenset([0])}
    with pytest.raises(MalformedProtocol, match="100000 elements"):
        read_assignment(assignment(MOST_ELEMENTS))
