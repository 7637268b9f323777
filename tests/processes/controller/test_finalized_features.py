"""What a broker of a cluster reads of /feature and of groups' configurations, at its start and whenever they change."""

from pathlib import Path

import pytest

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.core.controller.image import NO_FEATURES_EPOCH
from kafkad.core.controller.startup.reconciliation import UnusableMetadata
from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import WatchFired
from kafkad.processes.controller.tree_reader import ConfigChanges, finalized_features, group_configs

NONE: tuple[dict[str, int], int] = ({}, NO_FEATURES_EPOCH)


@pytest.fixture
def store() -> EmbeddedStore:
    return EmbeddedStore(Path(":memory:"), 7)


def is_told(store: EmbeddedStore) -> bool:
    return any(isinstance(event, WatchFired) and event.path == nodes.FEATURES for event in store.events())


def test_levels_are_read_and_every_change_is_told(store: EmbeddedStore) -> None:
    assert finalized_features(store) == NONE
    store.create(nodes.FEATURES, b'{"features":{},"version":2,"status":1}')
    assert is_told(store)
    assert finalized_features(store) == ({}, 0)
    store.set_data(nodes.FEATURES, b'{"features":{"group.version":1},"version":2,"status":1}')
    assert is_told(store)
    assert finalized_features(store) == ({"group.version": 1}, 1)
    store.delete(nodes.FEATURES)
    assert is_told(store)
    assert finalized_features(store) == NONE


def test_a_node_that_can_not_be_read_is_as_none(store: EmbeddedStore) -> None:
    store.create(nodes.FEATURES, b"no JSON")
    assert finalized_features(store) == NONE


@pytest.mark.parametrize("feature", ["group.version", "share.version"])
def test_features_that_this_version_has_not_end_the_broker_in_one_line(store: EmbeddedStore, feature: str) -> None:
    store.create(nodes.FEATURES, b'{"features":{"%s":7},"version":2,"status":1}' % feature.encode())
    with pytest.raises(UnusableMetadata, match=rf"finalized features that this version does not support: {feature}=7"):
        finalized_features(store)


def test_configurations_of_groups_are_read_and_followed(store: EmbeddedStore) -> None:
    for path in nodes.PERSISTENT_PATHS:
        store.create(path)
    changes = ConfigChanges()
    changes.watch(store)
    name = "a/group"
    store.create(nodes.group_config_path(name), b'{"version":1,"config":{"consumer.session.timeout.ms":"50000"}}')
    store.create(f"{nodes.GROUP_CONFIGS}/no base64!", b"{}")
    assert group_configs(store) == {name: {"consumer.session.timeout.ms": "50000"}}
    note = nodes.encode(nodes.ConfigChangeNode(entity_path=f"groups/{name}"))
    store.create(nodes.CONFIG_CHANGE, note, sequence=True)
    assert changes.read(store) == ({}, {}, group_configs(store))
    assert changes.read(store) == ({}, {}, {})
