"""The controller on a real ZooKeeper: the same code, the same tree as on the embedded store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.brokers.zookeeper import ZookeeperServer
from kafkad.adapters.stores.zookeeper_store import ZookeeperStore
from kafkad.core.controller.store import nodes
from kafkad.core.errors import ErrorCode
from tests.core.controller.world import Crash, CrashingStore, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    server = ZookeeperServer(tmp_path)
    store = ZookeeperStore(server.hosts, session_timeout_s=60, connect_timeout_s=120)
    world = World()
    world.store = CrashingStore(store)
    world.start()
    yield world
    store.close()
    server.stop()


def test_topics_are_made_found_again_and_deleted_as_on_the_embedded_store(world: World) -> None:
    embedded = World()
    embedded.start()
    for each in (world, embedded):
        results = each.create("t", "u", partitions=300)
        assert [result.code for result in results] == [ErrorCode.NONE] * 2
        each.open_partitions()
        each.start()
        each.delete("u")
        each.delete_directories()
        each.start()
        each.controller.set_topic_config("t", {"retention.ms": "1"})
    assert world.controller.image.topics == embedded.controller.image.topics
    ours = {path for path in world.tree() if not path.startswith("/zookeeper")}
    assert ours == embedded.tree()
    for path in ("/brokers/topics/t", "/brokers/topics/t/partitions/7/state", "/config/topics/t"):
        assert world.store.get(path).data == embedded.store.get(path).data


def test_a_creation_cut_short_is_completed_by_the_next_start(world: World) -> None:
    world.store.left = 50
    with pytest.raises(Crash):
        world.create("t", partitions=100)
    world.store.left = None
    world.start()
    assert [each.leader for each in world.controller.image.topics["t"].partitions] == [1] * 100


def test_apache_kafka_finds_no_block_of_producer_ids_where_none_was_given(world: World) -> None:
    """A node with empty data, as kazoo's transactions make it, is a block that can't be read: no id would be given."""
    store = world.store._store
    assert isinstance(store, ZookeeperStore)
    data, _ = store._client.get(nodes.PRODUCER_ID_BLOCK)
    assert data is None
