"""The live brokers as their registrations say. One that can't be read is left out; the others go on."""

from collections.abc import Mapping

from msgspec import MsgspecError

from kafkad.core.controller.features import lacking
from kafkad.core.controller.image import Broker, Listener
from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import CoordinationStore
from kafkad.core.types import SECURITY_PROTOCOLS

_PORTS = range(1 << 16)


def live_brokers(store: CoordinationStore, listener: str, *, watch: bool) -> tuple[dict[int, Broker], dict[str, str]]:
    """The brokers by id, and by name why a node is left out. With `watch`, which is for the controller alone, there are
    events when brokers come and go, and when a node is changed.

    `listener` is the one between brokers: without it nobody reaches the broker.
    """
    names = store.children(nodes.BROKER_IDS, watch=watch)
    found = store.get_many([f"{nodes.BROKER_IDS}/{name}" for name in names], watch=watch)
    brokers: dict[int, Broker] = {}
    odd = {}
    for name, node in zip(names, found, strict=True):
        if node is None:
            continue
        try:
            broker = _broker(name, node.data, node.stat.created_id, listener)
        except (MsgspecError, ValueError, RecursionError) as error:
            odd[name] = str(error)
        else:
            brokers[broker.id] = broker
    return brokers, odd


def leave_out_without(brokers: dict[int, Broker], levels: Mapping[str, int]) -> dict[str, str]:
    """Remove those that do not support the finalized features; returns by name why."""
    unsupported = {each: missing for each, broker in brokers.items() if (missing := lacking(broker.features, levels))}
    for each in unsupported:
        del brokers[each]
    return {
        str(each): f"it does not support the finalized features: {', '.join(missing)}"
        for each, missing in unsupported.items()
    }


def registration_lines(before: Mapping[int, Broker], brokers: Mapping[int, Broker]) -> list[str]:
    """What the log says of those that came or went."""
    gone = [f"broker {each} is gone: its session has ended" for each in before if each not in brokers]
    come = [
        f"broker {each} {'is back' if each in before else 'has joined'}: it is registered, its epoch is {broker.epoch}"
        for each, broker in brokers.items()
        if each not in before or before[each].epoch != broker.epoch
    ]
    return gone + come


def _broker(name: str, data: bytes, epoch: int, listener: str) -> Broker:
    if not name.isdecimal() or name != str(int(name)) or int(name) > nodes.INT32_MAX:
        raise ValueError("this is no broker id")
    node = nodes.decode_registration(data)
    listeners = tuple(_listener(text, node.listener_security_protocol_map) for text in node.endpoints)
    if not any(each.name == listener for each in listeners):
        raise ValueError(f"it has no listener {listener}")
    features = {feature: (at.min_version, at.max_version) for feature, at in (node.features or {}).items()}
    return Broker(id=int(name), epoch=epoch, listeners=listeners, rack=node.rack, features=features)


def _listener(text: str, protocols: Mapping[str, str]) -> Listener:
    name, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    protocol = protocols.get(name, name)
    if int(port) not in _PORTS or protocol not in SECURITY_PROTOCOLS:
        raise ValueError(f"{text!r} is no endpoint of a protocol that is known")
    return Listener(name=name, host=host.strip("[]"), port=int(port), security_protocol=protocol)
