"""Rules for contradictions between options. Each rule returns an option and its problem.

A configuration that Apache Kafka rejects is rejected here too, even if an option has no effect: both brokers can share
one file.
"""

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from kafkad.config.problems import ConfigProblem
from kafkad.core.cluster.protocol_versions import LEVELS, level_of
from kafkad.core.settings.values import Value, integer


def contradictions(values: Mapping[str, Value]) -> Iterator[ConfigProblem]:
    for rule in (
        *(_identity, _request_sizes, _connections, _listener_names, _log_dirs, _ages, _compaction, _dedupe_buffer),
        *(_replication, _groups, _group_limits, _zookeeper),
    ):
        for name, message in rule(values):
            yield ConfigProblem(name=name, message=message)


_Found = Iterator[tuple[str, str]]


def _words(values: Mapping[str, Value], name: str) -> tuple[str, ...]:
    value = values[name]
    return value if isinstance(value, tuple) else ()


def _identity(values: Mapping[str, Value]) -> _Found:
    if values["node.id"] != values["broker.id"]:
        yield "broker.id", f"is {values['broker.id']}, but node.id is {values['node.id']}; remove one of them"


def _request_sizes(values: Mapping[str, Value]) -> _Found:
    largest = integer(values, "socket.request.max.bytes")
    queued = integer(values, "queued.max.request.bytes")
    if 0 < queued < largest:
        yield "queued.max.request.bytes", f"must be -1 or at least socket.request.max.bytes, {largest}"
    if integer(values, "kafkad.arena.bytes") < largest:
        yield "kafkad.arena.bytes", f"must be at least socket.request.max.bytes, {largest}"


def _connections(values: Mapping[str, Value]) -> _Found:
    if values["max.connections.per.ip"] == 0 and not values["max.connections.per.ip.overrides"]:
        yield "max.connections.per.ip", "may be 0 only if max.connections.per.ip.overrides allows connections"
    idle, delay = "connections.max.idle.ms", "connection.failed.authentication.delay.ms"
    if 0 <= integer(values, idle) <= integer(values, delay):
        yield idle, f"must be -1 (unlimited) or more than {delay}, {values[delay]}"


def _listener_names(values: Mapping[str, Value]) -> _Found:
    """Finds names of missing listeners; `config/listeners.py` checks the listeners themselves."""
    names = {text.partition("://")[0].upper() for text in _words(values, "listeners")}
    for option in ("inter.broker.listener.name", "control.plane.listener.name"):
        name = values[option]
        if isinstance(name, str) and name and name.upper() not in names:
            yield option, f"names {name}, which is not in listeners"
    names |= {name.upper() for name in _words(values, "controller.listener.names")}
    for name in _words(values, "early.start.listeners"):
        if name.upper() not in names:
            yield "early.start.listeners", f"names {name}, which is in neither listeners nor controller.listener.names"


def _log_dirs(values: Mapping[str, Value]) -> _Found:
    name = "log.dirs" if values["log.dirs"] is not None else "log.dir"
    folders = values[name]
    if not isinstance(folders, tuple) or not folders or "" in folders:
        yield name, "at least one log directory is required, and no path may be empty"
    elif len(set(folders)) < len(folders):
        yield name, "a log directory occurs twice"
    else:
        for cordoned in _words(values, "cordoned.log.dirs"):
            if cordoned not in (*folders, "*"):
                yield "cordoned.log.dirs", f"{cordoned} is not in {name}"


def _ages(values: Mapping[str, Value]) -> _Found:
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if values[name] == 0:
            yield name, "must be -1 (unlimited) or at least 1"
    for name in ("log.roll.ms", "log.roll.hours"):
        age = values[name]
        if isinstance(age, int) and age < 1:
            yield name, "must be at least 1"
    for name in ("log.roll.jitter.ms", "log.roll.jitter.hours"):
        age = values[name]
        if isinstance(age, int) and age < 0:
            yield name, "must be at least 0"


def _compaction(values: Mapping[str, Value]) -> _Found:
    least = integer(values, "log.cleaner.min.compaction.lag.ms")
    most = integer(values, "log.cleaner.max.compaction.lag.ms")
    if least > most:
        yield "log.cleaner.min.compaction.lag.ms", f"is more than log.cleaner.max.compaction.lag.ms, {most}"


def _dedupe_buffer(values: Mapping[str, Value]) -> _Found:
    threads = integer(values, "log.cleaner.threads")
    # An integer division as in Kafka: 1 MB is not enough.
    if integer(values, "log.cleaner.dedupe.buffer.size") // threads <= 1024 * 1024:
        yield "log.cleaner.dedupe.buffer.size", "must be more than 1 MB for each cleaner (log.cleaner.threads)"


def _replication(values: Mapping[str, Value]) -> _Found:
    wait = "replica.fetch.wait.max.ms"
    for most in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        if integer(values, wait) > integer(values, most):
            yield wait, f"must be less than or equal to {most}, {values[most]}"


def _groups(values: Mapping[str, Value]) -> _Found:
    codec = integer(values, "offsets.topic.compression.codec")
    if not 0 <= codec <= _LAST_CODEC:
        yield "offsets.topic.compression.codec", f"must be the id of a codec, 0 to {_LAST_CODEC}"
    protocols = "group.coordinator.rebalance.protocols"
    if "classic" not in _words(values, protocols):
        yield protocols, "must contain classic: this protocol can't be disabled"
    if not _words(values, "group.consumer.assignors"):
        yield "group.consumer.assignors", "must not be empty"
    if integer(values, "group.streams.num.standby.replicas") > integer(values, "group.streams.max.standby.replicas"):
        yield "group.streams.num.standby.replicas", "must be less than or equal to group.streams.max.standby.replicas"


def _group_limits(values: Mapping[str, Value]) -> _Found:
    """The limits of configs of groups, and the defaults between them."""
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"group.{kind}.session.timeout.ms", f"group.{kind}.heartbeat.interval.ms"
        for rest in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
            yield from _between(values, kind, rest)
        if integer(values, heartbeat) >= integer(values, session):
            yield heartbeat, f"must be less than {session}"
    for rest in ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms"):
        yield from _between(values, "share", rest)


def _between(values: Mapping[str, Value], kind: str, rest: str) -> _Found:
    name, least, most = f"group.{kind}.{rest}", f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
    if integer(values, most) < integer(values, least):
        yield most, f"must be greater than or equal to {least}"
    elif integer(values, name) < integer(values, least):
        yield name, f"must be greater than or equal to {least}"
    elif integer(values, name) > integer(values, most):
        yield name, f"must be less than or equal to {most}"


_LAST_CODEC = 4
"""The code of zstd; 0 is none."""


TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")


def zookeeper_tls_versions(values: Mapping[str, Value]) -> tuple[str, ...]:
    """The enabled versions; by default the version in zookeeper.ssl.protocol."""
    return _words(values, "zookeeper.ssl.enabled.protocols") or (str(values["zookeeper.ssl.protocol"]),)


def zookeeper_hosts(connect: str) -> str:
    """`zookeeper.connect` without blanks and empty parts between servers, which Apache Kafka ignores too.

    Raises ValueError for an invalid server or chroot.
    """
    listed, slash, root = connect.partition("/")
    servers = [server.strip() for server in listed.split(",") if server.strip()]
    if not servers:
        raise ValueError("has no server")
    for server in servers:
        try:
            at = urlsplit(f"//{server}")
            host = (at.hostname or "").encode("idna")
            is_one = bool(host) and at.netloc == server and at.port != 0 and not any(map(str.isspace, server))
        except ValueError:
            is_one = False
        if not is_one:
            raise ValueError(f"{server} is not a server: expected host:port")
    if root:
        _check_chroot(f"/{root}")
    return ",".join(servers) + slash + root


def _check_chroot(path: str) -> None:
    """As ZooKeeper's client checks it (PathUtils). Raises ValueError."""
    names = path[1:].split("/")
    if path.endswith("/"):
        raise ValueError(f"the path {path} ends with /")
    if "" in names:
        raise ValueError(f"the path {path} has an empty name")
    if "." in names or ".." in names:
        raise ValueError(f"the path {path} is relative")
    for each in path:
        if each in _NO_PATH_CHARACTERS or ord(each) > 0xFFFF:
            raise ValueError(f"the path {path!r} has the character {each!r}, which ZooKeeper rejects")


_NO_PATH_CHARACTERS = frozenset(
    chr(code)
    for first, last in ((0, 0x1F), (0x7F, 0x9F), (0xD800, 0xF8FF), (0xFFF0, 0xFFFF))
    for code in range(first, last + 1)
)


def _zookeeper(values: Mapping[str, Value]) -> _Found:
    connect = values["zookeeper.connect"]
    if not isinstance(connect, str) or not connect:
        return
    try:
        zookeeper_hosts(connect)
    except ValueError as error:
        yield "zookeeper.connect", str(error)
    setting = values["inter.broker.protocol.version"]
    if isinstance(setting, str) and level_of(setting) is None:
        yield (
            "inter.broker.protocol.version",
            f"is {setting}; supported are {LEVELS[0]} to {LEVELS[-1]} (older levels have no topic ids)",
        )
    has_tls, keystore = values["zookeeper.ssl.client.enable"] is True, "zookeeper.ssl.keystore.location"
    if values["zookeeper.set.acl"] is True and not (has_tls and values[keystore]):
        yield (
            "zookeeper.set.acl",
            f"requires zookeeper.ssl.client.enable and {keystore}: ZooKeeper must authenticate the broker",
        )
    if not has_tls:
        return
    for store in ("keystore", "truststore"):
        kind = values[f"zookeeper.ssl.{store}.type"]
        if isinstance(kind, str) and kind.upper() not in ("", "PEM"):
            yield f"zookeeper.ssl.{store}.type", f"is {kind}, but only PEM is supported; see openssl pkcs12"
    named = "zookeeper.ssl.enabled.protocols"
    for version in zookeeper_tls_versions(values):
        if version not in TLS_VERSIONS:
            at = named if _words(values, named) else "zookeeper.ssl.protocol"
            yield at, f"has {version}; supported are {' and '.join(TLS_VERSIONS)}"
