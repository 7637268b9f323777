"""Finalized features of a cluster: only what every registered broker supports, and a new cluster has none."""

from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import pytest

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.core.controller.elected.announcements import Announcer
from kafkad.core.controller.elected.controller_failover import controller_failover
from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.controller.elected.registrations import live_brokers
from kafkad.core.controller.features import REGISTERED, unsupported_features
from kafkad.core.controller.image import NO_FEATURES_EPOCH, Listener
from kafkad.core.controller.settings import ControllerSettings
from kafkad.core.controller.startup.term import claim, ensure_paths, register_broker
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.store.unreadable_nodes import UnreadableNodes
from kafkad.core.controller.topics.topics import TopicDefaults
from kafkad.plugins.leader_election import PreferredReplica

GV, TV = "group.version", "transaction.version"
LISTENER = "PLAINTEXT"
KAFKAS = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://h:9092"],'
    b'"rack":null,"jmx_port":-1,"port":9092,"host":"h","version":5,"timestamp":"1795254954966"}'
)


@pytest.fixture
def store() -> EmbeddedStore:
    """Broker 1 of this version is registered."""
    made = EmbeddedStore(Path(":memory:"), 7)
    ensure_paths(made)
    listener = Listener(name=LISTENER, host="b", port=9092, security_protocol="PLAINTEXT")
    register_broker(made, 1, {LISTENER: listener}, None, 1_000)
    return made


def elected(store: EmbeddedStore) -> tuple[ElectedController, UnreadableNodes]:
    term, left_out = claim(store, 1, 1_000), UnreadableNodes()
    controller = controller_failover(
        store,
        MetadataTree(store, term),
        settings=ControllerSettings(defaults=TopicDefaults(partitions=1, replication_factor=1)),
        election=PreferredReplica(),
        announcer=Announcer(
            controller_id=1,
            controller_epoch=term.epoch,
            listener=LISTENER,
            brokers=live_brokers(store, LISTENER, watch=False)[0],
        ),
        cluster_id="c",
        new_topic_id=lambda: UUID(int=9),
        left_out=left_out,
    )
    return controller, left_out


def known(controller: ElectedController) -> tuple[Mapping[str, int], int]:
    return controller.image.features, controller.image.features_epoch


def test_a_new_cluster_has_none_so_that_apache_kafka_can_join(store: EmbeddedStore) -> None:
    controller, _ = elected(store)
    assert store.get(nodes.FEATURES).data == b'{"features":{},"version":2,"status":1}'
    assert known(controller) == ({}, 0)


def test_the_next_controller_knows_what_was_finalized(store: EmbeddedStore) -> None:
    controller, _ = elected(store)
    controller.set_features({GV: 1, TV: 2})
    assert known(elected(store)[0]) == ({GV: 1, TV: 2}, 1)


def test_levels_that_are_disabled_are_none(store: EmbeddedStore) -> None:
    store.create(nodes.FEATURES, b'{"features":{"group.version":1},"version":2,"status":0}')
    assert known(elected(store)[0]) == ({}, 0)


@pytest.mark.parametrize("data", [b"", b"no JSON", b'{"features":[]}', b"[" * 100_000])
def test_a_node_that_can_not_be_read_leaves_the_features_out_alone(store: EmbeddedStore, data: bytes) -> None:
    store.create(nodes.FEATURES, data)
    controller, left_out = elected(store)
    assert known(controller) == ({}, NO_FEATURES_EPOCH)
    assert set(left_out.reasons) == {nodes.FEATURES}
    assert store.get(nodes.FEATURES).data == data


def test_registration_says_what_is_supported_and_no_level_0(store: EmbeddedStore) -> None:
    brokers, odd = live_brokers(store, LISTENER, watch=False)
    assert (brokers[1].features, odd) == (dict(REGISTERED), {})
    assert b'"features":{"group.version":{"min_version":1,"max_version":1},' in store.get("/brokers/ids/1").data


def test_brokers_that_lack_a_level_are_named(store: EmbeddedStore) -> None:
    controller, _ = elected(store)
    assert controller.without_support({GV: 1, TV: 2}) == []
    store.create("/brokers/ids/2", KAFKAS)
    newer = KAFKAS.replace(b'{"features":{}', b'{"features":{"group.version":{"min_version":2,"max_version":3}}')
    store.create("/brokers/ids/3", newer)
    controller, _ = elected(store)
    assert controller.without_support({GV: 1}) == [2, 3]
    assert controller.without_support({GV: 2}) == [1, 2]
    assert controller.without_support({}) == []


def test_what_is_lacking() -> None:
    assert unsupported_features({GV: (1, 1)}, {GV: 1}) == []
    assert unsupported_features({GV: (1, 1)}, {GV: 2, TV: 1}) == [GV, TV]
    assert unsupported_features({}, {}) == []
