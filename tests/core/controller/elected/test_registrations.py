"""Registrations of any broker, Apache Kafka's and odd ones: a bad one is left out, the rest go on."""

from pathlib import Path

from msgspec.structs import replace

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.core.controller.elected.registrations import live_brokers, registration_lines
from kafkad.core.controller.image import Broker
from kafkad.core.controller.startup.term import ensure_paths
from kafkad.core.coordination_store import WatchFired, WatchKind

KAFKAS = (
    b'{"features":{},"listener_security_protocol_map":{"INT":"PLAINTEXT","SASL":"SASL_PLAINTEXT"},'
    b'"endpoints":["INT://127.0.0.1:22010","SASL://[::1]:22012"],"rack":"rack1","jmx_port":-1,"port":22010,'
    b'"host":"127.0.0.1","version":5,"timestamp":"1795254954966"}'
)


def test_odd_registrations_are_left_out_alone() -> None:
    store = EmbeddedStore(Path(":memory:"), 7)
    ensure_paths(store)
    store.create("/brokers/ids/1", KAFKAS)
    endpoint = b'{"endpoints":["%s"],"listener_security_protocol_map":{"INT":"%s"}}'
    odd = {
        "2": b"no JSON",
        "3": b"",
        "4": b'{"version":1,"host":"h","port":1}',
        "5": endpoint % (b"INT://h:p", b"SSL"),
        "6": endpoint % (b"INT://h:99999", b"SSL"),
        "7": endpoint % (b"INT://h:1", b"QUIC"),
        "8": endpoint % (b"EXT://h:1", b"SSL"),
        "9": b"[" * 100_000,
        "10": endpoint % (b"INT://%s:1" % (b"h" * 33_000), b"SSL"),
        "11": KAFKAS.replace(b"rack1", b"r" * 33_000),
        "12": KAFKAS.replace(b"rack1", b"\\ud800"),
        "stranger": KAFKAS,
        "-1": KAFKAS,
        "01": KAFKAS,
        "4294967296": KAFKAS,
    }
    for name, data in odd.items():
        store.create(f"/brokers/ids/{name}", data)
    brokers, left_out = live_brokers(store, "INT", watch=False)
    assert sorted(left_out) == sorted(odd)
    (broker,) = brokers.values()
    assert (broker.id, broker.rack) == (1, "rack1")
    assert [(each.name, each.host, each.port, each.security_protocol) for each in broker.listeners] == [
        ("INT", "127.0.0.1", 22010, "PLAINTEXT"),
        ("SASL", "::1", 22012, "SASL_PLAINTEXT"),
    ]
    assert broker.epoch == store.get("/brokers/ids/1").stat.created_id


def test_a_registration_that_is_changed_is_told() -> None:
    """Kafka's brokers do so when their advertised.listeners change."""
    store = EmbeddedStore(Path(":memory:"), 7)
    ensure_paths(store)
    store.create("/brokers/ids/1", KAFKAS)
    live_brokers(store, "INT", watch=True)
    store.set_data("/brokers/ids/1", KAFKAS.replace(b"22010", b"22020"))
    assert store.events() == [WatchFired(WatchKind.CHANGED, "/brokers/ids/1")]
    assert live_brokers(store, "INT", watch=False)[0][1].listeners[0].port == 22020


def test_who_is_not_the_controller_watches_no_registration() -> None:
    """With hundreds of brokers each change would wake up all of them."""
    store = EmbeddedStore(Path(":memory:"), 7)
    ensure_paths(store)
    store.create("/brokers/ids/1", KAFKAS)
    live_brokers(store, "INT", watch=False)
    store.set_data("/brokers/ids/1", b"no JSON")
    store.create("/brokers/ids/2", KAFKAS)
    assert store.events() == []


def test_brokers_that_came_and_went_are_logged() -> None:
    first = Broker(id=1, epoch=5, listeners=(), rack=None)
    again, second = replace(first, epoch=9), replace(first, id=2, epoch=7)
    assert registration_lines({1: first}, {1: first}) == []
    assert registration_lines({1: first}, {2: second}) == [
        "broker 1 is not registered any more: its session ended",
        "broker 2 registered with broker epoch 7",
    ]
    assert registration_lines({1: first}, {1: again}) == ["broker 1 registered again with broker epoch 9"]
