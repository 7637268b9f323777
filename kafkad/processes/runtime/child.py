"""The start and the end of every child process, around its own work.

A child starts with the supervisor's memory and descriptors. It closes everything that belongs to other processes, and
exits when its parent exits. The only broad `except` of all processes is here: an unexpected error is logged and ends
the process with exit code 70, and the supervisor restarts it.
"""

import faulthandler
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NoReturn, TypeAlias

from kafkad import standard_streams
from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.adapters.links.supervision_channel import Channel, ChannelClosed, Fatal
from kafkad.adapters.operating_system.parent_watch import die_with_parent
from kafkad.adapters.operating_system.process_limits import (
    OutOfResources,
    open_files_limit,
    set_process_title,
)
from kafkad.adapters.operating_system.service_manager import is_journal
from kafkad.adapters.shared_memory.arena import Arena
from kafkad.adapters.shared_memory.counters import CounterBlock, Counters
from kafkad.adapters.shared_memory.descriptor_ring import Doorbell
from kafkad.adapters.shared_memory.partition_table import PartitionTable
from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessRegistry
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.config import BrokerConfig, Endpoint, Listener
from kafkad.core.metrics.catalogue import GAUGE_INDEXES
from kafkad.core.supervision.broker_state import BrokerState
from kafkad.core.supervision.exit_codes import REFUSED
from kafkad.core.supervision.machine_limits import OpenFiles
from kafkad.plugin_loading import Plugins

EX_ORPHANED = 75
"""sysexits(3), a temporary failure. No process reads this code, because the supervisor has exited."""
EX_OSERR = 71
"""sysexits(3): the machine has run out of a resource."""
EX_SOFTWARE = 70
"""sysexits(3): an internal error."""

HANDLED_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STACKS_SIGNAL = signal.SIGUSR1
"""On this signal a process writes the stacks of its threads to stderr and continues, as on SIGQUIT (see the JVM)."""


def write_stacks_on_signals() -> None:
    for number in (STACKS_SIGNAL, signal.SIGQUIT):
        faulthandler.register(number, all_threads=True)


COLLECTION_THRESHOLDS = (10_000, 2, 1_000)
"""For `gc.set_threshold`: a collection of young objects takes a millisecond or two, and full collections are rare. With
the defaults, large requests caused full collections of 0.1 s again and again, although requests leave no cycles."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedState:
    """The shared memory of all processes, created before the fork. Each word and slot has one writer."""

    registry: ProcessRegistry
    table: PartitionTable
    counters: Counters
    arenas: tuple[Arena, ...]
    """One for each network process, by index."""
    rings: SharedRegion
    """The queues between workers and network processes or fetchers, numbered by `kafkad.processes.runtime.rings`."""
    connections: SharedRegion
    """A table of `kafkad.adapters.shared_memory.connection_counts` for each network process."""
    doorbells: Mapping[ProcessKey, Doorbell]
    """Wake a process when its rings have messages."""
    fetcher_arenas: tuple[Arena, ...] = ()
    """One for each fetcher, by index."""

    @property
    def arena_bytes(self) -> int:
        return sum(arena.size for arena in (*self.arenas, *self.fetcher_arenas))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildContext:
    """Everything that one incarnation of a child gets."""

    key: ProcessKey
    incarnation: int
    supervisor_pid: int
    shared: SharedState
    config: BrokerConfig
    plugins: Plugins | None
    runtime_dir: Path
    channel: Channel
    listeners: Sequence[tuple[Listener, socket.socket]]
    """Bound and listening; only network processes have them open."""
    endpoints: tuple[Endpoint, ...]
    """The real addresses of the listeners: a configured port 0 is replaced by the port of the socket."""
    log_directories: tuple[LogDirectory, ...]
    was_clean: tuple[bool, ...]
    """For each log directory, whether the broker stopped cleanly before this start."""

    @property
    def registry(self) -> ProcessRegistry:
        return self.shared.registry

    @property
    def table(self) -> PartitionTable:
        return self.shared.table

    @property
    def counters(self) -> Counters:
        return self.shared.counters

    @property
    def arenas(self) -> tuple[Arena, ...]:
        return self.shared.arenas

    @property
    def open_files(self) -> OpenFiles:
        """The limit of this process, and its shares."""
        return OpenFiles(limit=open_files_limit(), processes=len(self.registry.keys) + 1)

    @property
    def block(self) -> CounterBlock:
        """The counters that this process alone writes."""
        return self.shared.counters.block(self.shared.registry.slot(self.key))


RoleMain: TypeAlias = Callable[[ChildContext], None]
"""The main function of a role: it returns after `Stop` was received and `Stopped` was sent."""
Roles: TypeAlias = Mapping[str, RoleMain]


def run_child(context: ChildContext, main: RoleMain, forget: Callable[[], None]) -> None:
    """Run one incarnation of a child in the forked process. `forget` closes what belongs to other processes."""
    die_with_parent(context.supervisor_pid)
    standard_streams.forget_pending()
    _reset_signals()
    forget()
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    write_stacks_on_signals()
    set_process_title(str(context.key))
    configure_logging(str(context.key))
    # Gauges described the previous incarnation; counters continue.
    context.counters.zero(context.registry.slot(context.key), GAUGE_INDEXES)
    try:
        main(context)
    except ChannelClosed:
        # The supervisor has exited, so this process exits too, without an error of its own.
        _exit(EX_ORPHANED)
    except OutOfResources as error:
        _exit_without_resource(context, error)
    except Exception:
        log.critical("exiting: unexpected error", exc_info=True)
        _exit(EX_SOFTWARE)
    standard_streams.write_last()


def _exit(code: int) -> NoReturn:
    """Not sys.exit: remaining threads must not delay the exit after a failure."""
    standard_streams.write_last()
    os._exit(code)


def _exit_without_resource(context: ChildContext, error: OutOfResources) -> NoReturn:
    """The machine has run out of a resource. A starting broker fails; in a running one the other processes continue."""
    if context.registry.broker_state in (BrokerState.STARTING, BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN):
        context.channel.send(Fatal(str(error), exit_code=REFUSED))
    else:
        log.error("exiting: %s", error)
    _exit(EX_OSERR)


def configure_logging(name: str) -> None:
    """One format for all processes, to stderr: `[time] LEVEL role-index message`; the journal has its own time."""
    handler = logging.StreamHandler(sys.stderr)
    text = f"%(levelname)s {name} %(message)s"
    handler.setFormatter(_JournalFormatter(text) if is_journal() else logging.Formatter(f"[%(asctime)s] {text}"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    standard_streams.describe_dropped_by(partial(_describe_dropped, handler))


def _describe_dropped(handler: logging.Handler, count: int) -> str:
    message = "%d log lines were dropped: stderr was not read, or its disk was full"
    return handler.format(logging.LogRecord(__name__, logging.WARNING, __file__, 0, message, (count,), None))


class _JournalFormatter(logging.Formatter):
    """Puts the number of the level (syslog(3)) in front of the line; the journal removes it (sd-daemon(3))."""

    _PRIORITIES: ClassVar[Mapping[int, int]] = {
        logging.CRITICAL: 2,
        logging.ERROR: 3,
        logging.WARNING: 4,
        logging.INFO: 6,
        logging.DEBUG: 7,
    }

    def format(self, record: logging.LogRecord) -> str:
        return f"<{self._PRIORITIES.get(record.levelno, 6)}>{super().format(record)}"


def _reset_signals() -> None:
    """Only the supervisor handles signals, also when a whole process group gets them.

    Ctrl-C and some service managers signal all processes; a child that exits at once would not flush its logs.
    """
    signal.set_wakeup_fd(-1)
    for number in HANDLED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)
