"""What metrics are made of: shared memory, and the metadata."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from msgspec import structs

from kafkad.config import load
from kafkad.core.controller.image import MetadataImage
from kafkad.core.partition_slot import ROLE_LEADER, STATE_ONLINE, PartitionSlot
from kafkad.plugin_loading import load as load_plugins
from kafkad.processes.runtime.child import SharedState
from kafkad.processes.runtime.metrics_view import MetricsView
from tests.handlers.views import a_partition, a_topic
from tests.one_thread import OneThreadBroker
from tests.processes.pieces import SMALL
from tests.processes.real_ports import PORTS

UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[SharedState]:
    with tempfile.TemporaryDirectory() as runtime:
        options = {**SMALL, "log.dirs": str(tmp_path), "kafkad.runtime.dir": runtime}
        broker = OneThreadBroker(PORTS, load(None, list(options.items())), load_plugins(enabled=False))
        broker.acquire_resources()
        yield broker.shared
        broker.release_resources()


def test_a_replica_that_a_reassignment_adds_is_not_missed(shared: SharedState) -> None:
    """KIP-352: every reassignment raised the alert."""
    view = MetricsView(shared, (), per_partition=False)
    row = a_partition(replicas=(4, 1, 2, 3), isr=(1, 2, 3), adding=(4,))
    slot = PartitionSlot(topic_id=UUID(int=7).bytes, role=ROLE_LEADER, state=STATE_ONLINE)
    shared.table.publish(row.slot, slot)
    shown = {}
    for name, each in {"adding": row, "behind": structs.replace(row, isr=(1, 2))}.items():
        view.image = MetadataImage(topics={"t": a_topic("t", 7, each)})
        shown[name] = view.snapshot().value(UNDER_REPLICATED)
    assert shown == {"adding": 0, "behind": 1}
