"""The subscriptions of consumers, read from bytes of real clients."""

from io import BytesIO
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.consumer_protocol_subscription.v3.data import ConsumerProtocolSubscription, TopicPartition
from kio.schema.types import TopicName
from kio.serial import entity_writer
from kio.static.primitive import i32

from kafkad.core.groups.classic.subscription import MAX_NAMES, subscribed_topics


def subscription(*topics: str, version: int = 0, user_data: bytes | None = None, more: bytes = b"") -> bytes:
    names = b"".join(pack(">h", len(topic.encode())) + topic.encode() for topic in topics)
    data = pack(">i", -1) if user_data is None else pack(">i", len(user_data)) + user_data
    return pack(">hi", version, len(topics)) + names + data + more


def topics_of(*subscriptions: bytes) -> set[str] | None:
    topics = subscribed_topics(subscriptions)
    return None if topics is None else set(topics)


def test_topics_of_all_members_together() -> None:
    assert topics_of(subscription("a", "b"), subscription("b", "ü"), subscription()) == {"a", "b", "ü"}


def test_subscription_of_the_newest_version_is_understood() -> None:
    owned = TopicPartition(topic=TopicName("payments"), partitions=(i32(1),))
    newest = ConsumerProtocolSubscription(topics=("orders", "clicks"), user_data=b"x", owned_partitions=(owned,))
    buffer = BytesIO()
    entity_writer(ConsumerProtocolSubscription)(buffer, newest)
    assert topics_of(pack(">h", 3) + buffer.getvalue()) == {"orders", "clicks"}


def test_what_later_versions_add_is_passed_over() -> None:
    assert topics_of(subscription("a", version=3, user_data=b"x", more=b"owned partitions")) == {"a"}


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\0\0",
        pack(">hi", 0, -1),
        pack(">hih", 0, 1, -1) + b"\xff\xff\xff\xff",
        pack(">hih", 0, 1, 2) + b"\xff\xfe" + pack(">i", -1),
        subscription("topic")[:-5],
        subscription("a", user_data=b"xyz")[:-1],
    ],
)
def test_one_that_can_not_be_read_makes_the_group_unknown(broken: bytes) -> None:
    assert topics_of(subscription("a"), broken) is None


def test_more_names_of_all_members_than_are_read_make_the_group_unknown() -> None:
    half = pack(">hi", 0, MAX_NAMES // 2) + bytes(MAX_NAMES) + pack(">i", -1)
    assert topics_of(half, half, subscription()) == {""}
    assert topics_of(half, half + b"owned partitions") == {""}
    assert topics_of(half, half + b"owned partitions", subscription("a")) is None


@given(st.binary(max_size=60))
def test_no_bytes_are_too_strange(written: bytes) -> None:
    topics = subscribed_topics([written])
    assert topics is None or all(isinstance(topic, str) for topic in topics)


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=20)), st.none() | st.binary(max_size=10))
def test_what_was_written_is_read(topics: list[str], user_data: bytes | None) -> None:
    assert topics_of(subscription(*topics, user_data=user_data)) == set(topics)
