"""Which plugins are there, and what have they registered?

`load` runs once, in the supervisor before the fork. It returns plain mappings which every process holds from then
on. A plugin that can't be used stops the start (`PluginFailed`): half a set of rules is worse than none.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

import pluggy

from kafkad import hookspecs
from kafkad.core.cleanup import CleanupPolicy
from kafkad.core.election import LeaderElectionStrategy
from kafkad.core.groups.consumer.assignors import GroupAssignor
from kafkad.core.metrics.metric import MetricsReporter
from kafkad.core.quotas.manager import QuotaManager
from kafkad.core.quotas.replication_quota import ReplicationQuotaManager
from kafkad.core.replica_selector import ReplicaSelector
from kafkad.core.settings.option import Setting
from kafkad.core.settings.topic_config import problem_of, setting_of
from kafkad.hookspecs import HOOKSPEC_VERSION, PROJECT, BrokerInfo
from kafkad.plugin_discovery import FoundPlugin, PluginFailed, built_in, in_folder, installed
from kafkad.plugin_permissions import check_permissions
from kafkad.plugin_registration import Kind, Registration

T = TypeVar("T")


class UnknownObject(Exception):
    """The configuration names an object that no plugin has registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredObject:
    """`replaced_by` names the plugin whose object is used instead, or that removed this one."""

    kind: str
    name: str
    replaced_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPlugin:
    """One line of `kafkad plugins list`; a blocked plugin is not imported, and has neither hooks nor objects."""

    name: str
    version: str
    source: str
    hooks: tuple[str, ...]
    objects: tuple[RegisteredObject, ...]
    is_blocked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """Everything that plugins have registered, by name; the objects in use are looked up with `chosen`.

    `blocked_unknown` are names to block that no plugin has.
    """

    cleanup_policies: Mapping[str, CleanupPolicy]
    leader_election_strategies: Mapping[str, LeaderElectionStrategy]
    quota_managers: Mapping[str, QuotaManager]
    replication_quota_managers: Mapping[str, ReplicationQuotaManager]
    replica_selectors: Mapping[str, ReplicaSelector]
    metrics_reporters: Mapping[str, MetricsReporter]
    group_assignors: Mapping[str, GroupAssignor]
    topic_configs: Mapping[str, Setting]
    loaded: tuple[LoadedPlugin, ...]
    blocked_unknown: tuple[str, ...]
    manager: pluggy.PluginManager

    def broker_started(self, info: BrokerInfo) -> None:
        self.manager.hook.kafkad_broker_started(info=info)

    def broker_stopping(self, info: BrokerInfo) -> None:
        self.manager.hook.kafkad_broker_stopping(info=info)


def chosen(objects: Mapping[str, T], name: str, option: str) -> T:
    """The object that the configuration option `option` names; raises UnknownObject."""
    if name not in objects:
        known = ", ".join(sorted(objects)) or "nothing"
        raise UnknownObject(f"{option}={name}: no plugin registers it; known: {known}")
    return objects[name]


_KINDS = (
    Kind(name="cleanup policy", hook="kafkad_register_cleanup_policies", needs=("plan",)),
    Kind(name="leader election strategy", hook="kafkad_register_leader_election_strategies", needs=("elect",)),
    Kind(
        name="quota manager",
        hook="kafkad_register_quota_managers",
        needs=(
            "configure",
            "drain_local",
            "is_unlimited",
            "max_fetch_bytes",
            "record_fetch",
            "record_produce",
            "record_remote",
            "unrecord_fetch",
        ),
    ),
    Kind(
        name="replication quota manager",
        hook="kafkad_register_replication_quota_managers",
        needs=("configure", "is_unlimited", "pause_ms", "record"),
    ),
    Kind(name="replica selector", hook="kafkad_register_replica_selectors", needs=("select",)),
    Kind(
        name="metrics reporter",
        hook="kafkad_register_metrics_reporters",
        needs=("is_polled", "report", "start", "stop"),
    ),
    Kind(name="group assignor", hook="kafkad_register_group_assignors", needs=("assign",)),
    Kind(
        name="topic config",
        hook="kafkad_register_topic_configs",
        needs=("type", "default", "documentation", "validator"),
        problem=problem_of,
    ),
)


NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


def load(
    *,
    directory: str = "",
    enabled: bool = True,
    blocked: Collection[str] = (),
    settings: Mapping[str, str] = NO_SETTINGS,
) -> Plugins:
    """Load everything; `enabled` False leaves it at the built-in plugins. Raises PluginFailed.

    Plugins with names in `blocked` are not even imported. `settings` are the options as they are written in the
    configuration.
    """
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    for name in blocked:
        manager.set_blocked(name)
    if enabled and os.path.isdir(directory):
        check_permissions(directory)
    found = [*built_in(), *(installed(directory) if enabled else ()), *(in_folder(directory) if enabled else ())]
    for plugin in found:
        if not manager.is_blocked(plugin.name):
            _register(manager, plugin)
    sources = {plugin.name: plugin.source for plugin in found}
    written = MappingProxyType(dict(settings))
    registered = [Registration(manager, kind, sources, written) for kind in _KINDS]
    cleanup, election, quota, replication, selectors, metrics, assignors, topic_configs = (
        kind.in_use for kind in registered
    )
    return Plugins(
        cleanup_policies=cleanup,
        leader_election_strategies=election,
        quota_managers=quota,
        replication_quota_managers=replication,
        replica_selectors=selectors,
        metrics_reporters=metrics,
        group_assignors=assignors,
        topic_configs={name: setting_of(config) for name, config in topic_configs.items()},
        loaded=tuple(_loaded(manager, plugin, registered) for plugin in found),
        blocked_unknown=tuple(name for name in blocked if name not in sources),
        manager=manager,
    )


def _register(manager: pluggy.PluginManager, plugin: FoundPlugin) -> None:
    if manager.has_plugin(plugin.name):
        raise PluginFailed(plugin.name, plugin.source, "another plugin has this name")
    try:
        module = plugin.load()
    except (Exception, SystemExit) as error:
        # A plugin may raise anything while it is imported; the message has its file and the error.
        raise PluginFailed(plugin.name, plugin.source, f"{type(error).__name__}: {error}") from error
    requires = getattr(module, "kafkad_requires", HOOKSPEC_VERSION)
    if requires != HOOKSPEC_VERSION:
        cause = f"it requires hooks of version {requires}; this kafkad has version {HOOKSPEC_VERSION}"
        raise PluginFailed(plugin.name, plugin.source, cause)
    try:
        manager.register(module, name=plugin.name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise PluginFailed(plugin.name, plugin.source, str(error)) from error
    if not manager.get_hookcallers(module):
        raise PluginFailed(plugin.name, plugin.source, "it implements no hook of kafkad")


def _loaded(manager: pluggy.PluginManager, plugin: FoundPlugin, registered: Sequence[Registration]) -> LoadedPlugin:
    callers = manager.get_hookcallers(manager.get_plugin(plugin.name)) or []
    objects = tuple(
        RegisteredObject(kind=each.kind.name, name=name, replaced_by=each.replaced_by(plugin.name, name))
        for each in registered
        for name in each.by_plugin.get(plugin.name, ())
    )
    return LoadedPlugin(
        name=plugin.name,
        version=plugin.version,
        source=plugin.source,
        hooks=tuple(sorted(caller.name for caller in callers)),
        objects=objects,
        is_blocked=manager.is_blocked(plugin.name),
    )
