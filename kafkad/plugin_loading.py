"""Which plugins are there, and what have they registered?

`load` runs once, in the supervisor before the fork. It returns plain mappings which every process holds from then
on. A plugin that can't be used stops the start (`PluginFailed`): half a set of rules is worse than none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pluggy

from kafkad import hookspecs
from kafkad.core.cleanup import CleanupPolicy
from kafkad.core.election import LeaderElectionStrategy
from kafkad.core.groups.consumer.assignors import GroupAssignor
from kafkad.core.metrics.metric import MetricsReporter
from kafkad.core.quotas.manager import QuotaManager
from kafkad.hookspecs import HOOKSPEC_VERSION, PROJECT, BrokerInfo
from kafkad.plugin_discovery import FoundPlugin, PluginFailed, built_in, in_folder, installed

T = TypeVar("T")


class UnknownObject(Exception):
    """The configuration names an object that no plugin has registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredObject:
    """`replaced_by` names the plugin whose object of the same kind and name is used instead."""

    kind: str
    name: str
    replaced_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPlugin:
    """One line of `kafkad plugins list`."""

    name: str
    version: str
    source: str
    hooks: tuple[str, ...]
    objects: tuple[RegisteredObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """Everything that plugins have registered, by name; the objects in use are looked up with `chosen`."""

    cleanup_policies: Mapping[str, CleanupPolicy]
    leader_election_strategies: Mapping[str, LeaderElectionStrategy]
    quota_managers: Mapping[str, QuotaManager]
    metrics_reporters: Mapping[str, MetricsReporter]
    group_assignors: Mapping[str, GroupAssignor]
    loaded: tuple[LoadedPlugin, ...]
    manager: pluggy.PluginManager

    def broker_started(self, info: BrokerInfo) -> None:
        self.manager.hook.kafkad_broker_started(info=info)

    def broker_stopping(self, info: BrokerInfo) -> None:
        self.manager.hook.kafkad_broker_stopping(info=info)


def chosen(objects: Mapping[str, T], name: str, option: str) -> T:
    """The object that the configuration option `option` names; raises UnknownObject."""
    if name not in objects:
        known = ", ".join(sorted(objects)) or "nothing"
        raise UnknownObject(f"{option}={name}: no plugin registers that; there is {known}")
    return objects[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    name: str
    hook: str
    needs: tuple[str, ...]


_KINDS = (
    _Kind(name="cleanup policy", hook="kafkad_register_cleanup_policies", needs=("plan",)),
    _Kind(
        name="leader election strategy", hook="kafkad_register_leader_election_strategies", needs=("elect",)
    ),
    _Kind(
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
    _Kind(
        name="metrics reporter",
        hook="kafkad_register_metrics_reporters",
        needs=("is_polled", "report", "start", "stop"),
    ),
    _Kind(name="group assignor", hook="kafkad_register_group_assignors", needs=("assign",)),
)


def load(*, directory: str = "", enabled: bool = True) -> Plugins:
    """Load everything; `enabled` False leaves it at the built-in plugins. Raises PluginFailed."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    found = [*built_in(), *(installed(directory) if enabled else ()), *(in_folder(directory) if enabled else ())]
    for plugin in found:
        _register(manager, plugin)
    registered = [_Registered(manager, kind, found) for kind in _KINDS]
    cleanup, election, quota, metrics, assignors = (kind.in_use for kind in registered)
    return Plugins(
        cleanup_policies=cleanup,
        leader_election_strategies=election,
        quota_managers=quota,
        metrics_reporters=metrics,
        group_assignors=assignors,
        loaded=tuple(_loaded(manager, plugin, registered) for plugin in found),
        manager=manager,
    )


def _register(manager: pluggy.PluginManager, plugin: FoundPlugin) -> None:
    if manager.has_plugin(plugin.name):
        raise PluginFailed(plugin.name, plugin.source, "there is another plugin of this name")
    try:
        module = plugin.load()
    except (Exception, SystemExit) as error:
        # Whatever somebody else's module does while it is imported, its file and its error are told.
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


class _Registered:
    """The objects of one kind: which plugin has which, and which are in use."""

    def __init__(self, manager: pluggy.PluginManager, kind: _Kind, found: Sequence[FoundPlugin]) -> None:
        self.kind = kind
        self.by_plugin: dict[str, list[str]] = {}
        self.in_use: dict[str, Any] = {}
        self.users: dict[str, str] = {}
        self._sources = {plugin.name: plugin.source for plugin in found}
        # Defaults (trylast) come first in this list, and only they may be replaced.
        defaults: set[str] = set()
        for implementation in getattr(manager.hook, kind.hook).get_hookimpls():
            plugin_name = implementation.plugin_name
            for registered in self._call(plugin_name, implementation.function):
                name = self._checked_name(plugin_name, registered)
                if name in self.users and name not in defaults:
                    raise self._twice(name, plugin_name)
                self.by_plugin.setdefault(plugin_name, []).append(name)
                self.in_use[name] = registered
                self.users[name] = plugin_name
                if implementation.trylast:
                    defaults.add(name)
                else:
                    defaults.discard(name)

    def _call(self, plugin_name: str, function: Callable[[], Sequence[object] | None]) -> Sequence[object]:
        try:
            return function() or ()
        except Exception as error:
            cause = f"{self.kind.hook} failed: {type(error).__name__}: {error}"
            raise PluginFailed(plugin_name, self._sources[plugin_name], cause) from error

    def _checked_name(self, plugin_name: str, registered: object) -> str:
        name = getattr(registered, "name", None)
        missing = [attribute for attribute in self.kind.needs if not hasattr(registered, attribute)]
        cause = None
        if not isinstance(name, str) or not name:
            cause = f"a {self.kind.name} needs a name, {registered!r} has {name!r}"
        elif missing:
            cause = f"{self.kind.name} {name!r} lacks {', '.join(missing)}"
        if cause is not None:
            raise PluginFailed(plugin_name, self._sources[plugin_name], cause)
        return str(name)

    def _twice(self, name: str, plugin_name: str) -> PluginFailed:
        other = self.users[name]
        cause = f"{self.kind.name} {name!r} is registered by plugin {other} ({self._sources[other]}) too"
        return PluginFailed(plugin_name, self._sources[plugin_name], cause)


def _loaded(
    manager: pluggy.PluginManager, plugin: FoundPlugin, registered: Sequence[_Registered]
) -> LoadedPlugin:
    callers = manager.get_hookcallers(manager.get_plugin(plugin.name)) or []
    objects = []
    for kind in registered:
        for name in kind.by_plugin.get(plugin.name, ()):
            user = kind.users[name]
            replaced_by = None if user == plugin.name else user
            objects.append(RegisteredObject(kind=kind.kind.name, name=name, replaced_by=replaced_by))
    return LoadedPlugin(
        name=plugin.name,
        version=plugin.version,
        source=plugin.source,
        hooks=tuple(sorted(caller.name for caller in callers)),
        objects=tuple(objects),
    )
