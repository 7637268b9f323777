"""Registers this broker. Another broker with its id or one of its addresses ends the start.

A registration of the same id with the same addresses can only be this broker's own, from before a crash, because the
addresses are bound here. The broker waits until that session ends.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from msgspec import MsgspecError

from kafkad.core.controller.image import Broker, Listener
from kafkad.core.controller.startup.reconciliation import UnusableMetadata
from kafkad.core.controller.startup.term import register_broker
from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import CoordinationStore, NodeExists
from kafkad.core.errors import KafkaError


class RegistrationPending(Enum):
    """The reason why the broker is not registered yet."""

    EARLIER_SESSION = "the session of its earlier registration has not ended"


def try_to_register(
    store: CoordinationStore,
    broker_id: int,
    listeners: Sequence[Listener],
    rack: str | None,
    now_ms: int,
) -> Broker | RegistrationPending:
    """Register the broker, or return why it has to wait. Raises `UnusableMetadata`, and the errors of the store."""
    if has_earlier_session(store, broker_id, listeners):
        return RegistrationPending.EARLIER_SESSION
    by_name: Mapping[str, Listener] = {each.name: each for each in listeners}
    try:
        return register_broker(store, broker_id, by_name, rack, now_ms)
    except (KafkaError, NodeExists):
        # Another registration was faster: the next check names its broker.
        return RegistrationPending.EARLIER_SESSION


def has_earlier_session(store: CoordinationStore, broker_id: int, listeners: Iterable[Listener]) -> bool:
    """Whether an earlier session of this broker has registered it.

    Raises `UnusableMetadata` if another broker has its id or one of its addresses, and the errors of the store.
    """
    mine = frozenset((each.host, each.port) for each in listeners)
    names = store.children(nodes.BROKER_IDS)
    found = store.get_many([f"{nodes.BROKER_IDS}/{name}" for name in names])
    for name, node in zip(names, found, strict=True):
        if node is None or node.stat.ephemeral_owner == store.session_id:
            continue
        theirs = _addresses(node.data)
        if name != str(broker_id) and mine & theirs:
            host, port = sorted(mine & theirs)[0]
            raise UnusableMetadata(f"{host}:{port} is the address of broker {name} already: configure another address")
        if name == str(broker_id):
            if theirs and theirs != mine:
                shown = ", ".join(f"{host}:{port}" for host, port in sorted(theirs))
                raise UnusableMetadata(
                    f"broker {broker_id} is registered already, at {shown}: configure another broker.id"
                )
            return True
    return False


def _addresses(data: bytes) -> frozenset[tuple[str, int]]:
    try:
        return frozenset(_parsed(nodes.decode_endpoints(data).endpoints))
    except (MsgspecError, ValueError, RecursionError):
        return frozenset()


def _parsed(endpoints: Iterable[str]) -> Iterable[tuple[str, int]]:
    for text in endpoints:
        host, _, port = text.partition("://")[2].rpartition(":")
        yield host.strip("[]"), int(port)
