"""The broker's resources before the first fork: memory, addresses, log directories, the runtime directory.

They are acquired and released together; a missing resource raises `StartupFailed` with one line.
"""

import logging
import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from kafkad.adapters.files.log_directory import (
    LogDirectory,
    LogDirectoryForbidden,
    LogDirectoryOffline,
    LogDirectoryUnusable,
)
from kafkad.adapters.files.runtime_directory import RuntimeDirectory, RuntimeDirectoryUnusable
from kafkad.adapters.links.listening_sockets import (
    CannotListen,
    InheritedSockets,
    backlog_of,
    bind_listener,
    kept_name,
    start_listening,
)
from kafkad.adapters.operating_system.service_manager import ServiceManager, command_that_lets_in
from kafkad.adapters.shared_memory.arena import RESPONSE_SLACK, Arena, arena_bytes
from kafkad.adapters.shared_memory.connection_counts import TABLE_BYTES as TABLE_BYTES_OF_CONNECTIONS
from kafkad.adapters.shared_memory.counters import COUNTERS_BYTES, Counters
from kafkad.adapters.shared_memory.descriptor_ring import RING_BYTES, Doorbell
from kafkad.adapters.shared_memory.partition_table import NETWORK_COLUMNS, TABLE_BYTES, PartitionTable
from kafkad.adapters.shared_memory.process_registry import PROCESS_SLOTS, REGISTRY_BYTES, ProcessKey, ProcessRegistry
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.config import BrokerConfig, Endpoint, Listener
from kafkad.processes.runtime.child import SharedState
from kafkad.processes.runtime.rings import ring_count

log = logging.getLogger(__name__)

LEADERS_AT_ONCE = 4


class StartupFailed(Exception):
    """The reason why the broker can't start, as one line. The exit code is 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The resources that children inherit; `close` releases them."""

    shared: SharedState
    runtime_dir: Path
    listeners: tuple[tuple[Listener, socket.socket], ...]
    endpoints: tuple[Endpoint, ...]
    log_directories: tuple[LogDirectory, ...]
    was_clean: tuple[bool, ...]
    """For each log directory, also offline ones: whether it requires no recovery."""
    stack: ExitStack

    def stop_listening(self) -> None:
        """Close our copies of the listeners: with an open copy, the kernel accepts connections without a process."""
        for _, sock in self.listeners:
            sock.close()

    def close(self) -> None:
        self.stack.close()


def process_keys(config: BrokerConfig) -> tuple[ProcessKey, ...]:
    """The processes in start order. Raises `StartupFailed`."""
    counts = (
        ("controller", 1),
        ("worker", config.network.num_io_threads),
        ("network", config.network.num_network_threads),
        ("fetcher", fetcher_count(config)),
        ("cleaner", config.log_dirs.log_cleaner_threads),
        ("reporter", 1),
    )
    if config.network.num_network_threads > NETWORK_COLUMNS:
        raise StartupFailed(f"num.network.threads: at most {NETWORK_COLUMNS} network processes are possible")
    if sum(count for _, count in counts) > PROCESS_SLOTS:
        raise StartupFailed(
            "num.network.threads, num.io.threads, num.replica.fetchers and log.cleaner.threads: "
            f"at most {PROCESS_SLOTS - 2} processes together are possible"
        )
    return tuple(ProcessKey(role, index) for role, count in counts for index in range(count))


def fetcher_count(config: BrokerConfig) -> int:
    """Only brokers of a cluster have fetchers."""
    count = config.values["num.replica.fetchers"]
    assert isinstance(count, int), "it is an integer option"
    return count if config.cluster is not None else 0


def _fetcher_arena_bytes(config: BrokerConfig) -> int:
    """Space for the responses of some leaders at once; other responses wait. Unused pages cost no memory."""
    response_bytes = config.values["replica.fetch.response.max.bytes"]
    assert isinstance(response_bytes, int), "it is an integer option"
    return LEADERS_AT_ONCE * arena_bytes(response_bytes + RESPONSE_SLACK, config.network.socket_request_max_bytes)


def acquire_resources(config: BrokerConfig, service: ServiceManager | None = None) -> Resources:
    """All resources, or `StartupFailed`. `service` keeps the listening sockets over a restart."""
    keys = process_keys(config)
    with ExitStack() as stack:
        try:
            listeners = _bind(config, service or ServiceManager(), stack)
            log_directories = _lock(config, stack)
            runtime = RuntimeDirectory(Path(config.runtime.dir), Path(config.log_dirs.log_dirs[0]))
        except (CannotListen, LogDirectoryUnusable, RuntimeDirectoryUnusable) as error:
            raise StartupFailed(str(error)) from error
        stack.callback(runtime.remove)
        return Resources(
            shared=_share_memory(config, keys, stack),
            runtime_dir=runtime.path,
            listeners=listeners,
            endpoints=tuple(_endpoint(sock) for _, sock in listeners),
            log_directories=log_directories,
            was_clean=tuple(directory.was_clean for directory in log_directories),
            stack=stack.pop_all(),
        )


def _bind(
    config: BrokerConfig, service: ServiceManager, stack: ExitStack
) -> tuple[tuple[Listener, socket.socket], ...]:
    """The socket of each listener: from the service manager's store, or a new one that is stored there."""
    inherited = InheritedSockets()
    sockets = [(listener, inherited.take(listener.host, listener.port)) for listener in config.network.listeners]
    # First, because a new listener may overlap with an old one's address.
    for name in inherited.close():
        service.drop(name)
    listeners, new = [], []
    for listener, kept in sockets:
        sock = kept or bind_listener(listener.host, listener.port)
        stack.callback(sock.close)
        listeners.append((listener, sock))
        if kept is None and listener.port:
            new.append((listener, sock))
    network = config.network
    backlog = backlog_of(network.socket_listen_backlog_size, network.max_connection_creation_rate)
    start_listening([sock for _, sock in listeners], backlog)
    for listener, sock in new:
        service.keep(kept_name(listener.host, listener.port), sock)
    return tuple(listeners)


def _endpoint(sock: socket.socket) -> Endpoint:
    host, port = sock.getsockname()[:2]
    return Endpoint(host=host, port=port)


def _lock(config: BrokerConfig, stack: ExitStack) -> tuple[LogDirectory, ...]:
    """Lock log.dirs. The first directory holds the coordination store and must be usable; others may be offline."""
    directories: list[LogDirectory] = []
    for path in config.log_dirs.log_dirs:
        _reject_duplicate(path, directories)
        try:
            directory = _open(path)
        except LogDirectoryOffline as error:
            if not directories:
                raise
            log.error("log directory %s and its partitions are offline: %s", path, error)
            directory = LogDirectory.offline(Path(path))
        stack.callback(directory.close)
        directories.append(directory)
    return tuple(directories)


def _reject_duplicate(path: str, before: Sequence[LogDirectory]) -> None:
    """Compare directories, not names: `..`, a symbolic link, a mount. Raises `LogDirectoryUnusable`."""
    for other in before:
        try:
            is_same = other.is_online and os.path.samefile(os.path.realpath(path), other.path)
        except OSError:
            # The directory is missing or can't be used: opening it reports the error.
            continue
        if is_same:
            raise LogDirectoryUnusable(f"{path} and {other.path} are the same directory: name it once in log.dirs")


def _open(path: str) -> LogDirectory:
    try:
        return LogDirectory(Path(path))
    except LogDirectoryForbidden as error:
        command = command_that_lets_in(os.path.abspath(path))
        if command is None:
            raise
        raise LogDirectoryOffline(f"{error}; as root, let this service write there with: {command}") from error


def _share_memory(config: BrokerConfig, keys: tuple[ProcessKey, ...], stack: ExitStack) -> SharedState:
    def region(name: str, size: int) -> SharedRegion:
        try:
            shared = SharedRegion(name, size)
        except OSError as error:
            raise StartupFailed(
                f"can't allocate {size >> 20} MiB of shared memory ({name}): {error.strerror}"
            ) from error
        stack.callback(shared.close)
        return shared

    size = arena_bytes(config.runtime.arena_bytes, config.network.socket_request_max_bytes)
    networks = sum(key.role == "network" for key in keys)
    registry = ProcessRegistry(region("registry", REGISTRY_BYTES), keys)
    workers = sum(key.role == "worker" for key in keys)
    fetchers = sum(key.role == "fetcher" for key in keys)
    return SharedState(
        registry=registry,
        table=PartitionTable(region("partitions", TABLE_BYTES)),
        counters=Counters(region("counters", COUNTERS_BYTES)),
        arenas=tuple(Arena(region(f"arena-{index}", size)) for index in range(networks)),
        rings=region("rings", ring_count(networks + fetchers, workers) * RING_BYTES),
        connections=region("connections", networks * TABLE_BYTES_OF_CONNECTIONS),
        fetcher_arenas=tuple(
            Arena(region(f"fetcher-arena-{index}", _fetcher_arena_bytes(config))) for index in range(fetchers)
        ),
        doorbells={key: _doorbell(registry, key, stack) for key in keys},
    )


def _doorbell(registry: ProcessRegistry, key: ProcessKey, stack: ExitStack) -> Doorbell:
    fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    stack.callback(os.close, fd)
    return Doorbell(*registry.sleep_word(key), fd)
