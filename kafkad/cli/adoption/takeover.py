"""Write the plans to the coordination store of the broker that will use these directories.

A start of the broker would do the same, but without the configs of topics. The command may be interrupted and repeated:
a topic and its configs are stored atomically.
"""

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from kafkad.adapters.files.log_directory import LogDirectory, read_meta_properties
from kafkad.adapters.stores.embedded_store import FILE_NAME, EmbeddedStore
from kafkad.adapters.stores.store_copy import COPY_NAME, is_lost
from kafkad.cli.adoption.plan import KNOWN, NEW, TAKEN_OVER, TopicPlan
from kafkad.core.controller.electorate import FIRST_LEADER_EPOCH
from kafkad.core.controller.producer_ids import start_above_foreign_ids
from kafkad.core.controller.startup.term import Term, claim, ensure_cluster_id, ensure_paths
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.stored_metadata import PartitionState, StoredMetadata, StoredTopic
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.coordination_store import Check
from kafkad.core.types import TopicPartition
from kafkad.processes.controller.log_dirs import claim_all, proposed_cluster_id
from kafkad.processes.controller.startup import new_cluster_id, new_id
from kafkad.processes.controller.store.copies import open_store

DEFAULT_NODE_ID = 1
_NOTHING = StoredMetadata({}, {}, {}, {})


def node_id_of(directories: Sequence[Path]) -> int:
    """The broker id in `meta.properties`, or the default. Raises `LogDirectoryUnusable`."""
    for path in directories:
        found = read_meta_properties(path)
        if found is not None and found.node_id is not None:
            return found.node_id
    return DEFAULT_NODE_ID


def stored_metadata(first: Path) -> StoredMetadata:
    """The metadata in the store in the first log directory. Reads a copy, because opening a store writes to it."""
    if is_lost(first) and not (first / COPY_NAME).exists():
        return _NOTHING
    with TemporaryDirectory() as folder:
        for path in first.glob(f"{FILE_NAME}*"):
            shutil.copy(path, folder)
        store = open_store([Path(folder)], _session(), DEFAULT_NODE_ID)
        try:
            # Some paths are missing after an adoption that was killed early.
            ensure_paths(store)
            return MetadataTree(store, Term(0, Check(nodes.CONTROLLER_EPOCH, 0))).load()
        finally:
            store.close()


def transfer(paths: Sequence[Path], plans: Sequence[TopicPlan], node_id: int) -> None:
    """Raises `LogDirectoryUnusable`, also if a running broker uses one of the directories, and `StorageFailed`."""
    directories: list[LogDirectory] = []
    try:
        directories += map(LogDirectory, paths)
        store = open_store(paths, _session(), node_id)
        try:
            _store(store, directories, plans, node_id)
        finally:
            store.close()
        for directory in directories:
            # The lock has removed the mark of a clean shutdown; no log was changed.
            if directory.was_clean:
                directory.mark_clean_shutdown()
    finally:
        for directory in directories:
            directory.close()


def _store(store: EmbeddedStore, directories: Sequence[LogDirectory], plans: Sequence[TopicPlan], node_id: int) -> None:
    now_ms = time.time_ns() // 1_000_000
    ensure_paths(store)
    proposed = proposed_cluster_id([each.path for each in directories])
    claim_all(directories, ensure_cluster_id(store, proposed or new_cluster_id()), node_id)
    start_above_foreign_ids(store, node_id, now_ms)
    tree = MetadataTree(store, claim(store, node_id, now_ms))
    stored = tree.load().topics
    new = [plan for plan in plans if plan.state == NEW and plan.name not in stored]
    tree.create_topics([_new_topic(plan, node_id) for plan in new])
    tree.create_states(_states(new, node_id))
    for plan in plans:
        if plan.state == TAKEN_OVER and plan.source is not None and plan.name in stored:
            tree.set_config(nodes.topic_config_path(plan.name), f"topics/{plan.name}", plan.configs)


def _new_topic(plan: TopicPlan, node_id: int) -> StoredTopic:
    assert plan.state != KNOWN, f"{plan.name} is in the store"
    return StoredTopic(
        name=plan.name,
        id=plan.topic_id or new_id(),
        assignments=((node_id,),) * plan.partitions,
        states={},
        configs=plan.configs,
    )


def _states(plans: Sequence[TopicPlan], node_id: int) -> Mapping[TopicPartition, PartitionState]:
    """The states of the partitions, with a leader epoch above that of every batch on disk."""
    return {
        each.name: PartitionState(
            leader=node_id,
            leader_epoch=max(each.directory.leader_epoch, FIRST_LEADER_EPOCH - 1) + 1,
            isr=(node_id,),
        )
        for plan in plans
        for each in plan.found
    }


def _session() -> int:
    return uuid4().int >> 65
