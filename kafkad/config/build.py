"""Build a broker's configuration from the values of options.

The fields of each part are filled from the options of the same name; other fields are computed here. Every problem is
an error: an invalid configuration is never returned.
"""

import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

from kafkad.config.entities.broker import (
    NO_NODE_ID,
    BrokerConfig,
    ClusterConfig,
    LogCleanerConfig,
    LogDirsConfig,
    MetricsConfig,
    NetworkConfig,
    PluginsConfig,
    RuntimeConfig,
    Texts,
    TopicsConfig,
    ZookeeperTls,
)
from kafkad.config.entities.log_defaults import log_config, topic_defaults
from kafkad.config.listeners import Endpoint, InvalidListeners, Listener, Listeners, parse_endpoint, parse_listeners
from kafkad.config.problems import ConfigProblem, InvalidConfiguration
from kafkad.config.resolve import Resolved, resolve
from kafkad.config.rules import contradictions, zookeeper_hosts, zookeeper_tls_versions
from kafkad.config.table import BROKER_TABLE
from kafkad.core.cluster.protocol_versions import protocol_versions
from kafkad.core.settings.rows import INT_MAX
from kafkad.core.settings.values import Value, integer

Values = Mapping[str, Value]
_Part = TypeVar("_Part")


def build(texts: Texts) -> BrokerConfig:
    """The configuration of these texts. Raises InvalidConfiguration with all problems."""
    resolved = resolve(texts)
    written = texts.written
    _resolve_identity(resolved.values, texts)
    _resolve_arena(resolved.values, written)
    if not resolved.problems:
        resolved.problems.extend(contradictions(resolved.values))
        resolved.problems.extend(_set_twice(written))
        resolved.problems.extend(_wrong_id(resolved.values, texts))
    listeners = _attempt(resolved, "", _listeners)
    are_defaults = "listeners" not in written and "advertised.listeners" not in written
    if listeners is not None and are_defaults and not resolved.values["zookeeper.connect"]:
        listeners = listeners.without_advertised()
    metrics = _attempt(resolved, "kafkad.metrics.listener", _metrics_listener)
    overrides = _attempt(resolved, "max.connections.per.ip.overrides", _connections_per_ip)
    if resolved.problems or listeners is None or overrides is None:
        raise InvalidConfiguration(resolved.problems)
    values = resolved.values
    return BrokerConfig(
        node_id=integer(values, "node.id"),
        rack=_text(values, "broker.rack"),
        network=_part(NetworkConfig, values, listeners=listeners.served, max_connections_per_ip_overrides=overrides),
        log_dirs=_part(LogDirsConfig, values, log_dirs=values["log.dirs"] or values["log.dir"]),
        log_cleaner=_part(LogCleanerConfig, values),
        log=log_config(topic_defaults(values), flush_acks=values["kafkad.log.flush.acks"] is True),
        topics=_part(TopicsConfig, values),
        metrics=MetricsConfig(
            listener=metrics,
            listener_is_default="kafkad.metrics.listener" not in written,
            per_partition=values["kafkad.metrics.per.partition"] is True,
        ),
        plugins=_plugins(values),
        runtime=_runtime(values),
        cluster=_cluster(values, written, listeners.served),
        values=values,
        texts=texts,
        notices=(*resolved.notices, *_excluded_notices(listeners), *_unsupported_notices(values)),
    )


def _attempt(resolved: Resolved, name: str, rule: Callable[[Values], _Part]) -> _Part | None:
    """The result of the rule; None after an error, which is added to the problems."""
    try:
        return rule(resolved.values)
    except InvalidListeners as error:
        resolved.problems.append(ConfigProblem(name=name, message=str(error)))
        return None


def _part(part: type[_Part], values: Values, **computed: Any) -> _Part:
    """`part` with the `computed` fields, and the options of the same name for the other fields."""
    fields: Mapping[str, object] = part.__dataclass_fields__  # type: ignore[attr-defined]
    plain = {field: values[field.replace("_", ".")] for field in fields if field not in computed}
    return part(**plain, **computed)


def _resolve_identity(values: dict[str, Value], texts: Texts) -> None:
    """broker.id is the old name of node.id, and -1 is unset: in a cluster the id is then found later."""
    if values["zookeeper.connect"] and "node.id" not in {*texts.written, *texts.defaults}:
        values["node.id"] = values["broker.id"]
    if values["broker.id"] == -1:
        values["broker.id"] = values["node.id"]


def _wrong_id(values: Values, texts: Texts) -> Iterator[ConfigProblem]:
    """A configured id must be outside the range of ids that ZooKeeper assigns."""
    if not values["zookeeper.connect"]:
        return
    given, limit = integer(values, "broker.id"), "reserved.broker.max.id"
    if values["broker.id.generation.enable"] is not True:
        if given == NO_NODE_ID:
            message = "is missing, and broker.id.generation.enable is false"
            yield ConfigProblem(name="broker.id", message=message)
    elif given > integer(values, limit) and given != texts.defaults.get("node.id"):
        message = f"is {given}, but ids above {limit}, {values[limit]}, are assigned by ZooKeeper"
        yield ConfigProblem(name="broker.id", message=message)


def _resolve_arena(values: dict[str, Value], written: Mapping[str, str]) -> None:
    """The default size of the arena is at least the maximum size of a request."""
    if "kafkad.arena.bytes" not in written:
        largest = integer(values, "socket.request.max.bytes")
        values["kafkad.arena.bytes"] = max(integer(values, "kafkad.arena.bytes"), largest)


def _set_twice(written: Mapping[str, str]) -> Iterator[ConfigProblem]:
    both = ("inter.broker.listener.name", "security.inter.broker.protocol")
    if all(written.get(name) for name in both):
        yield ConfigProblem(name=both[1], message=f"only one of it and {both[0]} may be set; remove one of them")


def _listeners(values: Values) -> Listeners:
    advertised, is_in_cluster = values["advertised.listeners"], bool(values["zookeeper.connect"])
    listeners = parse_listeners(
        _words(values, "listeners"),
        _words(values, "advertised.listeners") if advertised is not None else None,
        _text(values, "listener.security.protocol.map") or "",
        _words(values, "controller.listener.names"),
        _host_name if is_in_cluster else None,
    )
    without_advertised = {each.name for each in listeners.served if each.advertised is None}
    if is_in_cluster and (name := inter_broker_listener(values, listeners.served)) in without_advertised:
        raise InvalidListeners(f"advertised.listeners has no address of {name}, the listener between brokers")
    return listeners


@cache
def _host_name() -> str:
    """The name of this host, as Java's canonical host name. Cached, because it may need a DNS lookup."""
    return socket.getfqdn()


def _excluded_notices(listeners: Listeners) -> tuple[str, ...]:
    return tuple(
        f"listener {name} has no effect: it is for KRaft controllers (controller.listener.names)"
        for name in listeners.excluded
    )


def _unsupported_notices(values: Values) -> tuple[str, ...]:
    """Notices instead of errors: Kafka's default contains an unsupported protocol."""
    name = "group.coordinator.rebalance.protocols"
    protocols = _words(values, name)
    kinds = [kind for kind in _UNSUPPORTED_PROTOCOLS if kind in protocols and protocols != BROKER_TABLE[name].default]
    return tuple(f"{kind} in {name} has no effect: {kind} groups are not supported" for kind in kinds)


def _metrics_listener(values: Values) -> Endpoint | None:
    written = _text(values, "kafkad.metrics.listener")
    return parse_endpoint(written) if written else None


def _connections_per_ip(values: Values) -> Mapping[str, int]:
    limits = {}
    for pair in filter(None, (_text(values, "max.connections.per.ip.overrides") or "").split(",")):
        host, _, count = pair.strip().rpartition(":")
        if not _HOST.fullmatch(host) or not _COUNT.fullmatch(count) or int(count) > INT_MAX:
            raise InvalidListeners(f"expected host:count, found {pair.strip()!r}")
        limits[host] = int(count)
    return limits


def _plugins(values: Values) -> PluginsConfig:
    return PluginsConfig(
        dir=_text(values, "kafkad.plugins.dir") or "",
        enabled=values["kafkad.plugins.enabled"] is True,
        blocked=tuple(filter(None, _words(values, "kafkad.plugins.blocked"))),
        leader_election_strategy=_text(values, "kafkad.leader.election.strategy") or "",
        quota_manager=_text(values, "kafkad.quota.manager") or "",
        replication_quota_manager=_text(values, "kafkad.replication.quota.manager") or "",
        replica_selector=_text(values, "replica.selector.class") or "",
        metrics_reporters=_words(values, "kafkad.metrics.reporters"),
        group_assignors=_assignors(values),
    )


def _assignors(values: Values) -> tuple[str, ...]:
    """The names of assignors; Apache Kafka's assignors may also be given by their class names."""
    return tuple(_ASSIGNOR_CLASSES.get(name, name) for name in _words(values, "group.consumer.assignors"))


def _cluster(values: Values, written: Mapping[str, str], listeners: Iterable[Listener]) -> ClusterConfig | None:
    connect = _text(values, "zookeeper.connect")
    if not connect:
        return None
    session_ms = integer(values, "zookeeper.session.timeout.ms")
    connection_ms = values["zookeeper.connection.timeout.ms"]
    in_flight = "zookeeper.max.in.flight.requests"
    between = inter_broker_listener(values, listeners)
    control_plane = (_text(values, "control.plane.listener.name") or between).upper()
    return ClusterConfig(
        zookeeper_connect=zookeeper_hosts(connect),
        zookeeper_session_timeout_ms=session_ms,
        zookeeper_connection_timeout_ms=connection_ms if isinstance(connection_ms, int) else session_ms,
        # With Kafka's default of 10, reading ten thousand states would need a thousand round trips.
        zookeeper_max_in_flight_requests=integer(values, in_flight) if in_flight in written else 500,
        zookeeper_tls=_zookeeper_tls(values),
        zookeeper_set_acl=values["zookeeper.set.acl"] is True,
        inter_broker_listener=between,
        control_plane_listener=control_plane,
        reserved_broker_max_id=integer(values, "reserved.broker.max.id"),
        versions=protocol_versions(_text(values, "inter.broker.protocol.version") or ""),
        suspect_refused_ms=integer(values, "kafkad.suspect.refused.ms"),
    )


def _zookeeper_tls(values: Values) -> ZookeeperTls | None:
    if values["zookeeper.ssl.client.enable"] is not True:
        return None
    return ZookeeperTls(
        keystore=_text(values, "zookeeper.ssl.keystore.location"),
        keystore_password=_text(values, "zookeeper.ssl.keystore.password"),
        truststore=_text(values, "zookeeper.ssl.truststore.location"),
        checks_host_name=bool(_text(values, "zookeeper.ssl.endpoint.identification.algorithm")),
        versions=zookeeper_tls_versions(values),
    )


def inter_broker_listener(values: Values, listeners: Iterable[Listener]) -> str:
    """The configured listener name, else the name of the listener with the configured security protocol."""
    name = _text(values, "inter.broker.listener.name")
    if name:
        return name.upper()
    protocol = values["security.inter.broker.protocol"]
    return next((each.name for each in listeners if each.protocol == protocol), str(protocol))


def _runtime(values: Values) -> RuntimeConfig:
    return RuntimeConfig(
        dir=_text(values, "kafkad.runtime.dir") or "",
        arena_bytes=integer(values, "kafkad.arena.bytes"),
    )


def _text(values: Values, name: str) -> str | None:
    value = values[name]
    assert value is None or isinstance(value, str), f"{name} is a text option"
    return value


def _words(values: Values, name: str) -> tuple[str, ...]:
    value = values[name]
    assert isinstance(value, tuple), f"{name} is a list option"
    return value


_HOST = re.compile(r"[0-9a-zA-Z\-%._:]+")
_UNSUPPORTED_PROTOCOLS = ("share", "streams")
_COUNT = re.compile(r"[0-9]{1,10}")
_ASSIGNOR_CLASSES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
