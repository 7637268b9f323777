"""Starts a broker from a configuration, and returns its exit code.

0: clean stop; 2: the broker can't start with this configuration, with one line for each reason.
`kafkad.processes.supervisor` runs the broker.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from kafkad.banner import Ready, banner, exposed
from kafkad.config import BrokerConfig, Endpoint, PluginsConfig
from kafkad.config.dynamic import unknown_policy
from kafkad.core.supervision.exit_codes import REFUSED
from kafkad.plugin_discovery import PluginFailed
from kafkad.plugin_loading import Plugins, UnknownObject, chosen, load
from kafkad.processes.supervisor import run_broker
from kafkad.standard_streams import print_lines, unblock_standard_streams, write_last


def start_broker(
    config: BrokerConfig,
    announce: Callable[[Ready], None] | None = None,
    reread: Callable[[], BrokerConfig] | None = None,
) -> int:
    """Run a broker in this process until it stops; returns the exit code.

    `announce` is called once, when the broker is ready; by default it prints the banner. `reread` reads the
    configuration again (SIGHUP).
    """
    unblock_standard_streams()
    try:
        return _start_broker(config, announce or print_banner, reread)
    finally:
        write_last()


def _start_broker(
    config: BrokerConfig, announce: Callable[[Ready], None], reread: Callable[[], BrokerConfig] | None
) -> int:
    for notice in config.notices:
        _print_warning(notice)
    for warning in exposed(config):
        _print_warning(f"WARNING: {warning}")
    try:
        plugins = load_plugins(config)
    except (PluginFailed, UnknownObject) as failure:
        _print_warning(str(failure))
        return REFUSED
    for name in plugins.blocked_unknown:
        _print_warning(f"kafkad.plugins.blocked: plugin {name} does not exist")

    import_kio_alone()

    def ready(endpoints: Sequence[Endpoint]) -> None:
        facts = Ready(config=config, endpoints=tuple(endpoints), ready_s=process_age_s())
        announce(facts)

    return run_broker(config, ready, plugins=plugins, reread=reread)


def load_plugins(config: BrokerConfig) -> Plugins:
    """Load all plugins, and check that the objects in the configuration exist.

    Raises PluginFailed or UnknownObject.
    """
    settings = config.plugins
    plugins = load(
        directory=settings.dir, enabled=settings.enabled, blocked=settings.blocked, settings=config.texts.static
    )
    try:
        text = unknown_policy(config, plugins.cleanup_policies)
        if text is not None:
            raise UnknownObject(text)
        _check_chosen(plugins, settings)
    except UnknownObject as unknown:
        blocked = [plugin.name for plugin in plugins.loaded if plugin.is_blocked]
        if not blocked:
            raise
        raise UnknownObject(f"{unknown} (kafkad.plugins.blocked={','.join(blocked)})") from None
    return plugins


def _check_chosen(plugins: Plugins, settings: PluginsConfig) -> None:
    # The policy `delete` is required, because it is the default.
    chosen(plugins.cleanup_policies, "delete", "cleanup.policy")
    strategy = "kafkad.leader.election.strategy"
    chosen(plugins.leader_election_strategies, settings.leader_election_strategy, strategy)
    chosen(plugins.quota_managers, settings.quota_manager, "kafkad.quota.manager")
    chosen(
        plugins.replication_quota_managers,
        settings.replication_quota_manager,
        "kafkad.replication.quota.manager",
    )
    if settings.replica_selector:
        chosen(plugins.replica_selectors, settings.replica_selector, "replica.selector.class")
    for reporter in settings.metrics_reporters:
        chosen(plugins.metrics_reporters, reporter, "kafkad.metrics.reporters")
    for assignor in settings.group_assignors:
        chosen(plugins.group_assignors, assignor, "group.consumer.assignors")


def import_kio_alone() -> None:
    """Import the base of kio as if hypothesis were not installed.

    Otherwise kio would import hypothesis, which takes 0.15 s at the start and megabytes in each process.
    """
    if "hypothesis" in sys.modules:
        return
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        import_module("kio.static.primitive")
    finally:
        del sys.modules["hypothesis"]


def print_banner(ready: Ready) -> None:
    print_lines(banner(ready, is_for_terminal="KAFKAD_UNIT" not in os.environ), sys.stdout)


def process_age_s() -> float:
    """Seconds since the start of this process, including the start of the interpreter."""
    after_name = Path("/proc/self/stat").read_text().rpartition(")")[2]
    started_s = int(after_name.split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_s


def _print_warning(line: str) -> None:
    print_lines(f"kafkad: {line}", sys.stderr)
