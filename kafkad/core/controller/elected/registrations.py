"""The live brokers as their registrations say. One that can't be read is left out; the others go on."""

from collections.abc import Mapping

from msgspec import MsgspecError

from kafkad.core.controller.image import Broker, Listener
from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import CoordinationStore


def live_brokers(store: CoordinationStore) -> tuple[dict[int, Broker], list[str]]:
    """The brokers by id, and the names of nodes that can't be read. Watches for changes."""
    names = store.children(nodes.BROKER_IDS, watch=True)
    found = store.get_many([f"{nodes.BROKER_IDS}/{name}" for name in names])
    brokers: dict[int, Broker] = {}
    odd = []
    for name, node in zip(names, found, strict=True):
        if node is None:
            continue
        broker = _broker(name, node.data, node.stat.created_id)
        if broker is None:
            odd.append(name)
        else:
            brokers[broker.id] = broker
    return brokers, odd


def _broker(name: str, data: bytes, epoch: int) -> Broker | None:
    try:
        node = nodes.decode_registration(data)
        listeners = tuple(_listener(text, node.listener_security_protocol_map) for text in node.endpoints)
        return Broker(id=int(name), epoch=epoch, listeners=listeners, rack=node.rack) if listeners else None
    except (MsgspecError, ValueError):
        return None


def _listener(text: str, protocols: Mapping[str, str]) -> Listener:
    name, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return Listener(name=name, host=host.strip("[]"), port=int(port), security_protocol=protocols.get(name, name))
