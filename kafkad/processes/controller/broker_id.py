"""The id of a broker without `node.id` and `broker.id` (Kafka: getOrGenerateBrokerId).

It is determined before the processes of the broker start, because all of them use it.
"""

from pathlib import Path

from kafkad.adapters.files.log_directory import META_PROPERTIES, LogDirectoryUnusable, read_meta_properties
from kafkad.adapters.stores.zookeeper_store import ZookeeperStore
from kafkad.config.entities.broker import NO_NODE_ID, BrokerConfig
from kafkad.core.controller.startup.term import ensure_paths, generate_broker_id
from kafkad.core.ports import StorageFailed
from kafkad.processes.controller.store.zookeeper_sessions import ZookeeperSessions


def find_broker_id(config: BrokerConfig) -> int | None:
    """The id in the log directories, or a new one from ZooKeeper, which may have to be waited for. None: an id is
    configured.

    Raises `LogDirectoryUnusable` if the directories have different ids.
    """
    cluster = config.cluster
    if cluster is None or config.node_id != NO_NODE_ID:
        return None
    kept = _kept_id(config)
    if kept is not None:
        return kept

    def generate(store: ZookeeperStore) -> int:
        ensure_paths(store)
        found = generate_broker_id(store, cluster.reserved_broker_max_id)
        store.close()
        return found

    return ZookeeperSessions(cluster, None, resumes=False).begin(generate)


def _kept_id(config: BrokerConfig) -> int | None:
    kept: tuple[str, int] | None = None
    for folder in config.log_dirs.log_dirs:
        try:
            found = read_meta_properties(Path(folder))
        except StorageFailed:
            # The broker can start without this directory if it has others.
            continue
        if found is None or found.node_id is None:
            continue
        if kept is not None and kept[1] != found.node_id:
            raise LogDirectoryUnusable(
                f"{folder} belongs to broker {found.node_id}, and {kept[0]} to broker {kept[1]}: "
                f"log.dirs must be of one broker; see {META_PROPERTIES}"
            )
        kept = folder, found.node_id
    return None if kept is None else kept[1]
