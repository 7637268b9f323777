"""From a configuration to a running broker, and from the way it ended to an exit code.

0: stopped in order; 2: what was asked can't be done here, one line for each reason. What happens in between
belongs to `kafkad.processes.supervisor`.
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
from kafkad.standard_streams import print_line, unblock_standard_streams, write_last


def start_broker(
    config: BrokerConfig,
    announce: Callable[[Ready], None] | None = None,
    reread: Callable[[], BrokerConfig] | None = None,
) -> int:
    """Run a broker in this process until it is told to stop; its exit code.

    `announce` is called once, when requests are answered; unless given, the banner is printed. `reread` reads the
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
        _complain(notice)
    for warning in exposed(config):
        _complain(f"WARNING: {warning}")
    try:
        plugins = load_plugins(config)
    except (PluginFailed, UnknownObject) as refusal:
        _complain(str(refusal))
        return REFUSED
    for name in plugins.blocked_unknown:
        _complain(f"kafkad.plugins.blocked: plugin {name} does not exist")

    import_kio_alone()

    def ready(endpoints: Sequence[Endpoint]) -> None:
        facts = Ready(config=config, endpoints=tuple(endpoints), ready_s=process_age_s())
        announce(facts)

    return run_broker(config, ready, plugins=plugins, reread=reread)


def load_plugins(config: BrokerConfig) -> Plugins:
    """Load every plugin, and check that the objects named in the configuration exist.

    Raises PluginFailed or UnknownObject.
    """
    wanted = config.plugins
    plugins = load(directory=wanted.dir, enabled=wanted.enabled, blocked=wanted.blocked, settings=config.texts.static)
    try:
        unknown_words = unknown_policy(config, plugins.cleanup_policies)
        if unknown_words is not None:
            raise UnknownObject(unknown_words)
        _check_chosen(plugins, wanted)
    except UnknownObject as unknown:
        blocked = [plugin.name for plugin in plugins.loaded if plugin.is_blocked]
        if not blocked:
            raise
        raise UnknownObject(f"{unknown} (kafkad.plugins.blocked={','.join(blocked)})") from None
    return plugins


def _check_chosen(plugins: Plugins, wanted: PluginsConfig) -> None:
    # A policy for delete is needed, as the default; compact has none yet, which is no error.
    chosen(plugins.cleanup_policies, "delete", "cleanup.policy")
    strategy = "kafkad.leader.election.strategy"
    chosen(plugins.leader_election_strategies, wanted.leader_election_strategy, strategy)
    chosen(plugins.quota_managers, wanted.quota_manager, "kafkad.quota.manager")
    chosen(
        plugins.replication_quota_managers,
        wanted.replication_quota_manager,
        "kafkad.replication.quota.manager",
    )
    if wanted.replica_selector:
        chosen(plugins.replica_selectors, wanted.replica_selector, "replica.selector.class")
    for reporter in wanted.metrics_reporters:
        chosen(plugins.metrics_reporters, reporter, "kafkad.metrics.reporters")
    for assignor in wanted.group_assignors:
        chosen(plugins.group_assignors, assignor, "group.consumer.assignors")


def import_kio_alone() -> None:
    """Import the base of kio as if hypothesis, which it looks for, were not installed.

    Where it is, among people's test tools, kio imports all of it: 0.15 s before a broker is ready, and
    megabytes in each process.
    """
    if "hypothesis" in sys.modules:
        return
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        import_module("kio.static.primitive")
    finally:
        del sys.modules["hypothesis"]


def print_banner(ready: Ready) -> None:
    print_line(banner(ready, is_for_terminal="KAFKAD_UNIT" not in os.environ), sys.stdout)


def process_age_s() -> float:
    """Seconds since this process began, the interpreter's own start included."""
    after_name = Path("/proc/self/stat").read_text().rpartition(")")[2]
    started_s = int(after_name.split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_s


def _complain(line: str) -> None:
    print_line(f"kafkad: {line}", sys.stderr)
