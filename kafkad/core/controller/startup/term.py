"""The claim of the controller's role, the registration of the broker, and the paths that both need.

A controller process that restarts inside the same session finds its own /controller node; a higher epoch fences all
writes of its previous incarnation.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from msgspec import MsgspecError

from kafkad.core.controller.features import REGISTERED
from kafkad.core.controller.image import Broker, Listener
from kafkad.core.controller.startup.reconciliation import UnusableMetadata
from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import Check, CoordinationStore, Create, Delete, NodeExists, NodeStat, SetData
from kafkad.core.errors import ErrorCode, KafkaError

PLAINTEXT = "PLAINTEXT"
_MAX_DIGITS = len(str(nodes.INT32_MAX))


@dataclass(frozen=True, slots=True)
class Term:
    """The time in which a broker is the controller; `guard` is part of every write to the tree."""

    epoch: int
    guard: Check


def ensure_paths(store: CoordinationStore) -> None:
    """Create the persistent paths. Raises CoordinationError."""
    for outcome in store.pipelined([Create(path) for path in nodes.PERSISTENT_PATHS]):
        if isinstance(outcome, Exception) and not isinstance(outcome, NodeExists):
            raise outcome
    with suppress(NodeExists):
        # Not in the transaction, which would give it empty data: then Apache Kafka allocates no producer ids.
        store.create(nodes.PRODUCER_ID_BLOCK)


def ensure_cluster_id(store: CoordinationStore, proposed: str) -> str:
    """The id of the cluster; a new cluster gets `proposed`. Raises UnusableMetadata for an unreadable id."""
    try:
        store.create(nodes.CLUSTER_ID, nodes.encode(nodes.ClusterIdNode(id=proposed)))
    except NodeExists:
        data = store.get(nodes.CLUSTER_ID).data
    else:
        return proposed
    try:
        return nodes.decode_cluster_id(data).id
    except (MsgspecError, ValueError, RecursionError) as error:
        raise UnusableMetadata(f"{nodes.CLUSTER_ID} is {data[:40]!r}, which is not a cluster id: {error}") from error


def generate_broker_id(store: CoordinationStore, reserved_max: int) -> int:
    """A unique broker id: the number of writes to /brokers/seqid, plus the highest id that files may have."""
    return reserved_max + store.set_data(nodes.BROKER_SEQUENCE, b"").version


def register_broker(
    store: CoordinationStore, broker_id: int, listeners: Mapping[str, Listener], rack: str | None, now_ms: int
) -> Broker:
    """Create or renew the ephemeral registration. Raises KafkaError if another session registered the same id."""
    path = f"{nodes.BROKER_IDS}/{broker_id}"
    data = nodes.encode(_registration(listeners, rack, now_ms))
    stat = store.exists(path)
    if stat is None:
        # Two writes, as in Kafka, so that the data has version 1.
        store.transaction([Create(path, b"", ephemeral=True), SetData(path, data)])
        stat = store.get(path).stat
    elif stat.ephemeral_owner == store.session_id:
        store.set_data(path, data)
    else:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"broker {broker_id} is registered by another session"
        )
    return Broker(id=broker_id, epoch=stat.created_id, listeners=tuple(listeners.values()), rack=rack)


class UnreadableEpoch(ValueError):
    """/controller_epoch can't be read as an epoch: no broker can be the controller."""


def claim(store: CoordinationStore, broker_id: int, now_ms: int, instead_of: NodeStat | None = None) -> Term:
    """Become the controller. Raises NOT_CONTROLLER or `UnreadableEpoch`.

    `instead_of` is the /controller node of an unreachable broker whose session is still live. The epoch is read before
    this node is checked, so that of several candidates only one succeeds.
    """
    if store.exists(nodes.CONTROLLER_EPOCH) is None:
        store.create(nodes.CONTROLLER_EPOCH, b"0")
    node = store.get(nodes.CONTROLLER_EPOCH)
    epoch = read_epoch(node.data) + 1
    raise_epoch = SetData(nodes.CONTROLLER_EPOCH, str(epoch).encode(), node.version)
    current = store.exists(nodes.CONTROLLER)
    mine = nodes.ControllerNode(brokerid=broker_id, timestamp=str(now_ms))
    take = Create(nodes.CONTROLLER, nodes.encode(mine), ephemeral=True)
    if current is None:
        store.transaction([take, raise_epoch])
    elif instead_of is not None and current.created_id == instead_of.created_id:
        store.transaction([raise_epoch, Delete(nodes.CONTROLLER), take])
    elif current.ephemeral_owner == store.session_id:
        store.transaction([raise_epoch])
    else:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "another broker is the controller")
    return Term(epoch, Check(nodes.CONTROLLER_EPOCH, node.version + 1))


def read_epoch(data: bytes) -> int:
    """Raises UnreadableEpoch."""
    if not data.isdigit() or len(data) > _MAX_DIGITS or int(data) >= nodes.INT32_MAX:
        raise UnreadableEpoch(f"{nodes.CONTROLLER_EPOCH} is {data[:40]!r}, which is not a controller epoch")
    return int(data)


def _registration(listeners: Mapping[str, Listener], rack: str | None, now_ms: int) -> nodes.BrokerNode:
    plain = next((each for each in listeners.values() if each.security_protocol == PLAINTEXT), None)
    return nodes.BrokerNode(
        features={name: nodes.SupportedLevels(*levels) for name, levels in REGISTERED.items()},
        listener_security_protocol_map={each.name: each.security_protocol for each in listeners.values()},
        endpoints=tuple(f"{each.name}://{_in_url(each.host)}:{each.port}" for each in listeners.values()),
        rack=rack,
        port=plain.port if plain else -1,
        host=plain.host if plain else None,
        timestamp=str(now_ms),
    )


def _in_url(host: str) -> str:
    """An IPv6 address has colons, so it gets brackets."""
    return f"[{host}]" if ":" in host else host
