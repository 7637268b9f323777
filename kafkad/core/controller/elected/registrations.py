"""The live brokers from their registrations. An unreadable registration is ignored."""

from collections.abc import Mapping

from msgspec import MsgspecError

from kafkad.core.controller.features import unsupported_features
from kafkad.core.controller.image import Broker, Listener
from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import CoordinationStore
from kafkad.core.types import SECURITY_PROTOCOLS

_PORTS = range(1 << 16)


def live_brokers(store: CoordinationStore, listener: str, *, watch: bool) -> tuple[dict[int, Broker], dict[str, str]]:
    """The brokers by id, and by node name the reason why a node is ignored. `watch`, for the controller only, sets
    watches for new, ended and changed registrations.

    `listener` is the name of the inter-broker listener, which every broker must have.
    """
    names = store.children(nodes.BROKER_IDS, watch=watch)
    found = store.get_many([f"{nodes.BROKER_IDS}/{name}" for name in names], watch=watch)
    brokers: dict[int, Broker] = {}
    unreadable = {}
    for name, node in zip(names, found, strict=True):
        if node is None:
            continue
        try:
            broker = _broker(name, node.data, node.stat.created_id, listener)
        except (MsgspecError, ValueError, RecursionError) as error:
            unreadable[name] = str(error)
        else:
            brokers[broker.id] = broker
    return brokers, unreadable


def is_registered(store: CoordinationStore, broker: Broker) -> bool:
    """Whether the broker's node has a readable registration. Watches the node, also a missing one."""
    path = f"{nodes.BROKER_IDS}/{broker.id}"
    stat = store.exists(path, watch=True)
    (node,) = store.get_many([path])
    if stat is None or node is None or node.stat.created_id != broker.epoch:
        return False
    try:
        _broker(str(broker.id), node.data, broker.epoch, broker.listeners[0].name)
    except (MsgspecError, ValueError, RecursionError):
        return False
    return True


def remove_unsupported(brokers: dict[int, Broker], levels: Mapping[str, int]) -> dict[str, str]:
    """Remove brokers that do not support the finalized features; returns the reasons by node name."""
    unsupported = {
        each: missing for each, broker in brokers.items() if (missing := unsupported_features(broker.features, levels))
    }
    for each in unsupported:
        del brokers[each]
    return {
        str(each): f"the broker does not support the finalized features: {', '.join(missing)}"
        for each, missing in unsupported.items()
    }


def registration_lines(before: Mapping[int, Broker], brokers: Mapping[int, Broker]) -> list[str]:
    """The log lines about new and ended registrations."""
    ended = [f"broker {each} is not registered any more: its session ended" for each in before if each not in brokers]
    new = [
        f"broker {each} registered{' again' if each in before else ''} with broker epoch {broker.epoch}"
        for each, broker in brokers.items()
        if each not in before or before[each].epoch != broker.epoch
    ]
    return ended + new


def _broker(name: str, data: bytes, epoch: int, listener: str) -> Broker:
    if not name.isdecimal() or name != str(int(name)) or int(name) > nodes.INT32_MAX:
        raise ValueError("the node name is not a broker id")
    node = nodes.decode_registration(data)
    listeners = tuple(_listener(text, node.listener_security_protocol_map) for text in node.endpoints)
    if not any(each.name == listener for each in listeners):
        raise ValueError(f"the broker has no listener {listener}")
    features = {feature: (at.min_version, at.max_version) for feature, at in (node.features or {}).items()}
    return Broker(id=int(name), epoch=epoch, listeners=listeners, rack=node.rack, features=features)


def _listener(text: str, protocols: Mapping[str, str]) -> Listener:
    name, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    protocol = protocols.get(name, name)
    if int(port) not in _PORTS or protocol not in SECURITY_PROTOCOLS:
        raise ValueError(f"endpoint {text!r} has an invalid port or an unknown security protocol")
    return Listener(name=name, host=host.strip("[]"), port=int(port), security_protocol=protocol)
