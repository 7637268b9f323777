"""Strangers write into ZooKeeper what no broker can read: that topic, partition or broker is left out, no more.

What each of them costs a controller is in tests/core/controller/elected/test_unreadable_nodes.py; here real brokers
get over all of them, and one of them is killed.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from kazoo.exceptions import NotEmptyError

from bench.brokers.zookeeper import ZookeeperServer
from tests.daemon.cluster import Cluster

ODD = {
    "/brokers/topics/no-json": b"no JSON",
    "/brokers/topics/nothing": b"",
    "/brokers/topics/far": b'{"partitions":{"2000000000":[1]}}',
    "/brokers/topics/no-id": b'{"partitions":{"0":[2]},"topic_id":"?"}',
    "/brokers/topics/a b": b'{"partitions":{"0":[2]}}',
    "/config/topics/t": b"no JSON",
    "/config/topics/half": b'{"version":1,"config":{"unknown":"1","retention.ms":"no number"}}',
    "/brokers/ids/stranger": b"{}",
    "/brokers/ids/9": b"no JSON",
    "/admin/delete_topics/no-json": b"no JSON",
}


@pytest.fixture
def own_cluster(tmp_path: Path, zookeeper: ZookeeperServer) -> Iterator[Cluster]:
    """What is written into its tree stays there."""
    with ExitStack() as ends:
        yield Cluster(tmp_path, ends, zookeeper)


def _is_removed(cluster: Cluster, path: str) -> bool:
    """The next controller creates the nodes again as soon as one is missing, also while others are being removed."""
    try:
        cluster.zookeeper.delete(path, recursive=True)
    except NotEmptyError:
        return False
    return True


def test_a_new_controller_leaves_out_what_it_can_not_read(own_cluster: Cluster) -> None:
    cluster = own_cluster
    cluster.create(1, "t", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    cluster.create(1, "half", {0: [2, 3], 1: [3, 2]})
    cluster.wait_until(lambda: cluster.leaders(3, "half") == [2, 3], "broker 3 knows the leaders")
    cluster.produce(2, range(300))
    for path, data in ODD.items():
        if cluster.zookeeper.exists(path):
            cluster.zookeeper.set(path, data)
        else:
            cluster.zookeeper.create(path, data)
    cluster.zookeeper.set("/brokers/topics/half/partitions/0/state", b"no JSON")
    cluster.zookeeper.create("/isr_change_notification/isr_change_0000000000", b"no JSON")
    cluster.wait_until(
        lambda: cluster.zookeeper.get_children("/isr_change_notification") == [], "the notification is taken"
    )
    before = cluster.zookeeper.set("/controller", b'{"version":2,"brokerid":7,"timestamp":"1"}')
    cluster.wait_until(
        lambda: getattr(cluster.zookeeper.exists("/controller"), "czxid", before.czxid) != before.czxid,
        "whom another name takes the place of resigns, and one is elected anew",
    )

    cluster.brokers[1].kill()
    cluster.wait_until(lambda: cluster.leaders(3, "t") == [2, 2, 3], "others lead in its place")
    cluster.wait_until(lambda: cluster.controller(3) in (2, 3), "another broker is the controller")
    cluster.produce(2, range(300, 600))
    cluster.create(3, "after", {0: [3], 1: [2]})
    cluster.wait_until(lambda: cluster.leaders(2, "after") == [3, 2], "the new controller makes topics")
    cluster.brokers[1].start()
    cluster.wait_until(lambda: cluster.in_sync(2, "t") == [{1, 2, 3}] * 3, "it has caught up when it is back")
    assert cluster.known(1) == {1, 2, 3}
    # Of the other partition each broker has its last word.
    assert cluster.leaders(1, "half")[1] == 3
    epoch = int(cluster.zookeeper.get("/controller_epoch")[0])
    cluster.create(2, "later", {0: [1]})
    cluster.wait_until(lambda: cluster.leaders(3, "later") == [1], "broker 3 knows the new topic")
    assert int(cluster.zookeeper.get("/controller_epoch")[0]) == epoch
    assert cluster.consume(1, "g", 600) == sorted(range(600))

    # And they may remove what every cluster has.
    cluster.wait_until(partial(_is_removed, cluster, "/admin"), "the nodes are removed")
    cluster.create(2, "last", {0: [1]})
    cluster.wait_until(lambda: cluster.leaders(3, "last") == [1], "there still is a controller")
