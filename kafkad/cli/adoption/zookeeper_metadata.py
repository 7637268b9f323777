"""Read topics from the ZooKeeper of an older cluster. Writes nothing there."""

import logging

from kafkad.adapters.stores.zookeeper_store import ZookeeperStore, ZookeeperUnreachable
from kafkad.cli.adoption.foreign_topics import ForeignCluster, ForeignTopic, UnreadableSource
from kafkad.config.rules import zookeeper_hosts
from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import CoordinationError, Node

_WITHIN_S = 10.0


def read_zookeeper(hosts: str) -> ForeignCluster:
    """`hosts` as in zookeeper.connect, with a chroot if the cluster has one. Raises UnreadableSource."""
    # kazoo logs each attempt, and Python prints warnings without a handler.
    logging.getLogger("kazoo").addHandler(logging.NullHandler())
    try:
        store = ZookeeperStore(zookeeper_hosts(hosts), session_timeout_s=_WITHIN_S, connect_timeout_s=_WITHIN_S)
    except (ZookeeperUnreachable, ValueError) as error:
        raise UnreadableSource(str(error)) from error
    try:
        for path in (nodes.TOPICS, nodes.TOPIC_CONFIGS):
            if store.exists(path) is None:
                raise UnreadableSource(f"ZooKeeper at {hosts} has no {path}; a chroot is given as HOST:PORT/kafka")
        return _cluster(hosts, store)
    except (CoordinationError, ValueError) as error:
        raise UnreadableSource(f"ZooKeeper at {hosts} can't be read: {error}") from error
    finally:
        store.close()


def _cluster(hosts: str, store: ZookeeperStore) -> ForeignCluster:
    deleting = set(store.children(nodes.DELETIONS)) if store.exists(nodes.DELETIONS) else set()
    names = [name for name in store.children(nodes.TOPICS) if name not in deleting]
    topics = store.get_many([nodes.topic_path(name) for name in names])
    configs = store.get_many([nodes.topic_config_path(name) for name in names])
    (for_all,) = store.get_many([nodes.broker_config_path("")])
    return ForeignCluster(
        source=f"ZooKeeper at {hosts}",
        topics={
            name: _topic(node.data, config)
            for name, node, config in zip(names, topics, configs, strict=True)
            if node is not None and node.data
        },
        broker_configs=_configs(for_all),
    )


def _topic(data: bytes, config: Node | None) -> ForeignTopic:
    topic = nodes.decode_topic(data)
    return ForeignTopic(
        topic_id=nodes.decode_id(topic.topic_id) if topic.topic_id else None,
        partitions=len(topic.partitions),
        configs=_configs(config),
    )


def _configs(node: Node | None) -> dict[str, str]:
    return nodes.decode_config(node.data).config if node is not None and node.data else {}
