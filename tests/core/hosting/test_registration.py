"""Who may register: another broker's id or address is refused, a registration of our own from before is waited for."""

from pathlib import Path

import pytest

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.core.controller.image import Broker, Listener
from kafkad.core.controller.startup.reconciliation import UnusableMetadata
from kafkad.core.controller.startup.term import ensure_paths
from kafkad.core.hosting.registration import RegistrationPending, try_to_register

PLAINTEXT = Listener(name="PLAINTEXT", host="two.example", port=9092, security_protocol="PLAINTEXT")
INTERNAL = Listener(name="INT", host="::1", port=9093, security_protocol="PLAINTEXT")


@pytest.fixture
def store() -> EmbeddedStore:
    made = EmbeddedStore(Path(":memory:"), 7)
    ensure_paths(made)
    return made


def registered(store: EmbeddedStore, broker_id: int, data: bytes) -> None:
    """By a session of somebody else."""
    store.create(f"/brokers/ids/{broker_id}", data)


def attempt(store: EmbeddedStore) -> Broker | RegistrationPending:
    return try_to_register(store, 2, (PLAINTEXT, INTERNAL), "rack2", 1_000)


def test_the_epoch_of_a_registration_is_the_creation_id_of_its_node(store: EmbeddedStore) -> None:
    broker = attempt(store)
    assert isinstance(broker, Broker)
    node = store.get("/brokers/ids/2")
    assert (broker.epoch, node.version) == (node.stat.created_id, 1)
    assert (broker.listeners, broker.rack) == ((PLAINTEXT, INTERNAL), "rack2")
    assert b'"endpoints":["PLAINTEXT://two.example:9092","INT://[::1]:9093"]' in node.data


def test_an_earlier_registration_of_the_same_addresses_is_waited_for(store: EmbeddedStore) -> None:
    registered(store, 2, b'{"endpoints":["PLAINTEXT://two.example:9092","INT://[::1]:9093"],"version":5}')
    assert attempt(store) is RegistrationPending.EARLIER_SESSION
    store.delete("/brokers/ids/2")
    assert isinstance(attempt(store), Broker)


def test_an_id_that_another_broker_has_is_refused(store: EmbeddedStore) -> None:
    registered(store, 2, b'{"endpoints":["PLAINTEXT://other.example:9092"],"version":5}')
    with pytest.raises(UnusableMetadata, match=r"broker 2 is registered already, at other\.example:9092"):
        attempt(store)


def test_an_address_that_another_broker_has_is_refused(store: EmbeddedStore) -> None:
    registered(store, 3, b'{"endpoints":["EXT://other.example:1","PLAINTEXT://two.example:9092"],"version":5}')
    with pytest.raises(UnusableMetadata, match=r"two\.example:9092 is the address of broker 3 already"):
        attempt(store)


@pytest.mark.parametrize(
    "data", [b"", b"no JSON", b"[]", b'{"endpoints":[3]}', b'{"endpoints":["x"]}', b'{"endpoints":null}']
)
def test_odd_registrations_of_others_are_no_reason_to_refuse(store: EmbeddedStore, data: bytes) -> None:
    registered(store, 3, data)
    assert isinstance(attempt(store), Broker)
