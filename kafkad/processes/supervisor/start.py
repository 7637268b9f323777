"""A broker from its configuration to its exit code: acquire resources, supervise, release resources."""

import faulthandler
import logging
import os
import select
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module

from kafkad.adapters.links.supervision_channel import Channel, Reload
from kafkad.adapters.operating_system import process_limits
from kafkad.adapters.operating_system.service_manager import ServiceManager
from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.config import BrokerConfig, Endpoint, InvalidConfiguration, dynamic
from kafkad.core.ports import StorageFailed
from kafkad.core.settings.values import integer
from kafkad.core.supervision.exit_codes import REFUSED
from kafkad.core.supervision.machine_limits import OpenFiles
from kafkad.core.supervision.restart_backoff import FAILURES_ALLOWED
from kafkad.core.supervision.stop_sequence import STAGE_MS
from kafkad.plugin_loading import Plugins
from kafkad.processes.runtime.child import (
    ChildContext,
    RoleMain,
    Roles,
    configure_logging,
    write_stacks_on_signals,
)
from kafkad.processes.supervisor.children import Children
from kafkad.processes.supervisor.machine_limits import (
    too_few_open_files,
    unsupported_machine,
    warn_of_few_open_files,
    warn_of_little_memory,
)
from kafkad.processes.supervisor.resources import Resources, StartupFailed, acquire_resources, process_keys
from kafkad.processes.supervisor.signals import SignalQueue
from kafkad.processes.supervisor.supervision import Supervision
from kafkad.wire.api_table import serve_cluster

log = logging.getLogger(__name__)

ROLES = ("controller", "worker", "network", "fetcher", "cleaner", "reporter")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimeouts:
    """The failures per minute allowed for one process, and the time limit of each stage of a stop."""

    failures_allowed: int = FAILURES_ALLOWED
    stage_ms: Mapping[str, int] = field(default_factory=lambda: STAGE_MS)


Reread = Callable[[], BrokerConfig]


def run_broker(
    config: BrokerConfig,
    announce: Callable[[Sequence[Endpoint]], None],
    *,
    plugins: Plugins | None = None,
    roles: Roles | None = None,
    reread: Reread | None = None,
    timeouts: StartTimeouts | None = None,
) -> int:
    """Run a broker until it stops. Returns the exit code: 0, 1 (failed) or 2 (can't start).

    `announce` is called once, when all processes are ready. `reread` reads the configuration again (SIGHUP).
    `roles` are the main functions of the processes; by default those of `kafkad.processes`.
    """
    configure_logging("supervisor")
    faulthandler.enable()
    write_stacks_on_signals()
    process_limits.raise_open_files()
    # Imported once, before the fork: a restarted child must not import again.
    mains = dict(roles) if roles is not None else load_roles()
    if config.cluster is not None:
        serve_cluster()
    service = ServiceManager()
    try:
        _check_machine(config)
        resources = acquire_resources(config, service)
    except StartupFailed as error:
        print(f"kafkad: {error}", file=sys.stderr, flush=True)
        return REFUSED
    own_pid = os.getpid()
    try:
        warn_of_few_open_files(_open_files(config), config, resources.log_directories)
        warn_of_little_memory(len(process_keys(config)) + 1, resources.shared.arena_bytes)
        return _Broker(config, plugins, resources, service, mains, announce, reread, timeouts or StartTimeouts()).run()
    finally:
        # A child never gets here; if it did, it must not remove the runtime directory.
        if os.getpid() == own_pid:
            resources.close()


def _check_machine(config: BrokerConfig) -> None:
    """Raises `StartupFailed` if the broker can't run on this machine with this configuration."""
    machine_error = unsupported_machine(os.uname().machine)
    for reason in (machine_error, too_few_open_files(_open_files(config))):
        if reason is not None:
            raise StartupFailed(reason)


def _open_files(config: BrokerConfig) -> OpenFiles:
    return OpenFiles(limit=process_limits.open_files_limit(), processes=len(process_keys(config)) + 1)


def load_roles() -> Mapping[str, RoleMain]:
    """The main function of each role, by convention `kafkad.processes.<role>.main`."""
    mains: dict[str, RoleMain] = {}
    for role in ROLES:
        mains[role] = import_module(f"kafkad.processes.{role}").main
    return mains


CONTROLLED_SHUTDOWN_SLACK_MS = 5_000
"""The controller process aborts each ControlledShutdown request this long before the supervisor's timeout."""


class _Broker:
    """The state of start, reload and stop: the present configuration and the resources."""

    def __init__(
        self,
        config: BrokerConfig,
        plugins: Plugins | None,
        resources: Resources,
        service: ServiceManager,
        mains: Mapping[str, RoleMain],
        announce: Callable[[Sequence[Endpoint]], None],
        reread: Reread | None,
        timeouts: StartTimeouts,
    ) -> None:
        self._config = config
        self._plugins = plugins
        self._resources = resources
        self._mains = dict(mains)
        self._announce = announce
        self._reread = reread
        self._timeouts = timeouts
        self._service = service
        self._close_in_children: tuple[Callable[[], None], ...] = ()

    def run(self) -> int:
        resources = self._resources
        registry = resources.shared.registry
        with SignalQueue() as signals, select.epoll() as epoll:
            self._close_in_children = (signals.close, epoll.close)
            children = Children(registry, self._mains, self._context, self._forget, self._timeouts.failures_allowed)
            supervision = Supervision(
                children=children,
                registry=registry,
                counters=resources.shared.counters,
                epoll=epoll,
                signals=signals,
                service=self._service,
                is_recovering=not all(resources.was_clean),
                on_ready=partial(self._announce, resources.endpoints),
                on_stopping=resources.stop_listening,
                reread=self._reload,
                stage_ms=self._timeouts.stage_ms,
                controlled_shutdown_ms=_controlled_shutdown_ms(self._config),
            )
            try:
                code = supervision.run()
            finally:
                children.kill_all()
        if supervision.unclean_workers == 0:
            self._mark_clean()
        return code

    def _mark_clean(self) -> None:
        failed = ControllerHandover(self._resources.shared.table).offline
        for at, directory in enumerate(self._resources.log_directories):
            if at in failed or not directory.is_online:
                continue
            try:
                directory.mark_clean_shutdown()
            except StorageFailed as error:
                log.error(
                    "can't mark the clean shutdown in %s, the next start recovers its logs: %s", directory.path, error
                )

    def _context(self, key: ProcessKey, incarnation: int, channel: Channel) -> ChildContext:
        resources = self._resources
        return ChildContext(
            key=key,
            incarnation=incarnation,
            supervisor_pid=os.getpid(),
            shared=resources.shared,
            config=self._config,
            plugins=self._plugins,
            runtime_dir=resources.runtime_dir,
            channel=channel,
            listeners=resources.listeners,
            endpoints=resources.endpoints,
            log_directories=resources.log_directories,
            was_clean=resources.was_clean,
        )

    def _forget(self, key: ProcessKey) -> None:
        """In the child: close the descriptors that only the supervisor or another role uses."""
        for close in self._close_in_children:
            close()
        self._service.forget()
        if key.role != "network":
            for _, sock in self._resources.listeners:
                sock.close()

    def _reload(self) -> Reload | None:
        """Read the file again and apply the options that require no restart; None when nothing changes."""
        if self._reread is None:
            log.info("SIGHUP: there is no properties file to read again")
            return None
        try:
            reloaded = dynamic.reloadable(self._config, self._reread())
        except InvalidConfiguration as error:
            for problem in error.problems:
                log.error("configuration not reloaded: %s", problem)
            return None
        plugins = self._plugins
        unknown = dynamic.unknown_policy(reloaded.config, plugins.cleanup_policies if plugins is not None else ())
        if unknown is not None:
            log.error("configuration not reloaded: %s", unknown)
            return None
        for name in reloaded.applied:
            # Without the value: it may be a secret.
            log.info("%s has a new value", name)
        for name in reloaded.needs_restart:
            log.warning("%s has changed in the file, but requires a restart", name)
        if not reloaded.applied:
            return None
        self._config = reloaded.config
        return Reload(static=dict(reloaded.config.texts.static))


def _controlled_shutdown_ms(config: BrokerConfig) -> int:
    """The timeout of the controlled shutdown; 0: there is none."""
    values = config.values
    if config.cluster is None or not values["controlled.shutdown.enable"]:
        return 0
    pause_ms = integer(values, "controlled.shutdown.retry.backoff.ms")
    try_ms = integer(values, "controller.socket.timeout.ms") + CONTROLLED_SHUTDOWN_SLACK_MS
    return max(0, integer(values, "controlled.shutdown.max.retries")) * (pause_ms + try_ms)
