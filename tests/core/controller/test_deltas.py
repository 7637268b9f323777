from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkad.core.controller import deltas
from kafkad.core.controller.deltas import MetadataDelta, MetadataGap, apply, decode, encode, snapshot
from kafkad.core.controller.image import Broker, Listener, MetadataImage, Partition, Topic
from tests.amounts import amount


def partition(index: int, slot: int = 0, leader: int = 1) -> Partition:
    return Partition(
        index=index,
        slot=slot,
        owner=0,
        log_dir=0,
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        replicas=(1,),
        isr=(1,),
    )


def topic(name: str, number: int, partitions: int = 1) -> Topic:
    made = tuple(partition(index, slot=index) for index in range(partitions))
    return Topic(name=name, id=UUID(int=number), partitions=made, configs={"retention.ms": "1"})


LISTENER = Listener(name="PLAINTEXT", host="h", port=9092, security_protocol="PLAINTEXT")
BROKER = Broker(id=1, epoch=7, listeners=(LISTENER,), rack=None)

CHANGES: tuple[deltas.Change, ...] = (
    deltas.BrokersChanged((BROKER,)),
    deltas.TopicCreated(topic("a", 1)),
    deltas.TopicCreated(topic("b", 2, partitions=3)),
    deltas.PartitionsAdded("a", (partition(1), partition(2))),
    deltas.PartitionsChanged("b", (partition(1, leader=-1),)),
    deltas.TopicConfigChanged("a", {}),
    deltas.BrokerConfigChanged("", {"log.retention.ms": "5"}),
    deltas.TopicDeleted("b", UUID(int=2), (0, 1, 2)),
)


def test_each_change_does_what_it_says() -> None:
    image = apply(MetadataImage(cluster_id="c"), MetadataDelta(1, CHANGES[:7]))
    assert image.brokers == {1: BROKER}
    assert len(image.topics["a"].partitions) == 3
    assert image.topics["a"].configs == {}
    assert [each.leader for each in image.topics["b"].partitions] == [1, -1, 1]
    assert image.broker_configs == {"": {"log.retention.ms": "5"}}
    assert image.topic_by_id(UUID(int=2)) == image.topics["b"]
    after = apply(image, MetadataDelta(2, CHANGES[7:]))
    assert set(after.topics) == {"a"}
    assert after.topic_by_id(UUID(int=2)) is None
    assert "b" in image.topics, "the image before is not touched"


def test_every_change_survives_the_wire() -> None:
    delta = MetadataDelta(3, CHANGES)
    assert decode(encode(delta)) == delta


def test_a_snapshot_replaces_whatever_was_there() -> None:
    image = apply(MetadataImage(cluster_id="c"), MetadataDelta(1, CHANGES))
    other = apply(MetadataImage(cluster_id="x"), MetadataDelta(1, (deltas.TopicCreated(topic("z", 9)),)))
    assert apply(other, decode(encode(snapshot(image)))) == image
    assert apply(MetadataImage(), snapshot(image)) == image


def test_an_old_delta_changes_nothing_and_a_gap_is_refused() -> None:
    image = apply(MetadataImage(), MetadataDelta(1, CHANGES[:2]))
    assert apply(image, MetadataDelta(1, CHANGES[:2])) is image
    assert apply(image, snapshot(MetadataImage())) is image
    with pytest.raises(MetadataGap, match="delta 3 does not follow version 1"):
        apply(image, MetadataDelta(3, CHANGES[2:3]))


@settings(max_examples=amount("delta_examples"))
@given(st.lists(st.integers(0, 7), max_size=4), st.integers(0, 3))
def test_deltas_one_by_one_and_a_snapshot_on_the_way_lead_to_the_same_image(repeats: list[int], late: int) -> None:
    images = [MetadataImage(cluster_id="c")]
    stream = [MetadataDelta(version, (change,)) for version, change in enumerate(CHANGES, 1)]
    for delta in stream:
        images.append(apply(images[-1], delta))
    joined = apply(MetadataImage(), snapshot(images[late]))
    for delta in stream:
        joined = apply(joined, delta)
        for repeat in repeats:
            joined = apply(joined, stream[repeat]) if repeat < joined.version else joined
    assert joined == images[-1]


def test_ten_thousand_partitions_pass_as_one_snapshot() -> None:
    topics = {f"t{number}": topic(f"t{number}", number, partitions=10) for number in range(1000)}
    ids = {each.id: name for name, each in topics.items()}
    image = MetadataImage(version=5, topics=topics, names_by_id=ids, brokers={1: BROKER})
    assert apply(MetadataImage(), decode(encode(snapshot(image)))) == image


def test_topics_that_are_gone_are_told_by_name_with_all_their_ids() -> None:
    changes = (
        deltas.TopicDeleted("a", UUID(int=1), (0,)),
        deltas.TopicCreated(topic("a", 2)),
        deltas.TopicDeleted("a", UUID(int=2), (1,)),
        deltas.TopicDeleted("b", UUID(int=3), (2,)),
    )
    assert deltas.deleted_topics(changes) == {"a": {UUID(int=1), UUID(int=2)}, "b": {UUID(int=3)}}
