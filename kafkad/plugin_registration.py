"""Collects the objects of one kind that plugins register, and selects the used object of each name.

A register hook is called once, with pluggy's rules: `tryfirst`, `trylast`, wrappers. Each object is stored with its
plugin, so that error messages have the plugin's name and file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pluggy

from kafkad import hookspecs
from kafkad.hookspecs import PROJECT
from kafkad.plugin_discovery import PluginFailed

Settings = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of object: the hook that registers it, its required attributes, and further checks."""

    name: str
    hook: str
    required: tuple[str, ...]
    problem: Callable[[Any], str | None] = lambda _: None


class Registration:
    """The objects of one kind: their names by plugin (`by_plugin`), and the used objects by name (`in_use`)."""

    def __init__(
        self, manager: pluggy.PluginManager, kind: Kind, sources: Mapping[str, str], settings: Settings
    ) -> None:
        self.kind = kind
        self.by_plugin: dict[str, list[str]] = {}
        self.in_use: dict[str, Any] = {}
        self.users: dict[str, str] = {}
        self._sources = sources
        self._defaults: set[str] = set()
        call = _RegisterCall(getattr(manager.hook, kind.hook))
        self.wrapper = call.wrapper
        try:
            registered = call.objects(settings)
        except (Exception, SystemExit) as error:
            raise self._failed(
                call.failed_plugin(error), f"{kind.hook} failed: {type(error).__name__}: {error}"
            ) from error
        for recorded in call.recorded:
            self._record(recorded)
        # Defaults (trylast) first, because only defaults may be replaced.
        for recorded in sorted(registered, key=lambda each: not each.is_default):
            self._use(recorded)

    def replaced_by(self, plugin_name: str, name: str) -> str | None:
        """The plugin that replaces or removes this plugin's object, if any."""
        user = self.users.get(name, self.wrapper)
        return None if user == plugin_name else user

    def _record(self, recorded: "_RegisteredObject") -> str:
        name = self._checked_name(recorded)
        names = self.by_plugin.setdefault(recorded.plugin_name, [])
        if name not in names:
            names.append(name)
        return name

    def _use(self, recorded: "_RegisteredObject") -> None:
        name = self._record(recorded)
        if name in self.users and name not in self._defaults:
            raise self._duplicate_error(name, recorded.plugin_name)
        self.in_use[name] = recorded.registered
        self.users[name] = recorded.plugin_name
        (self._defaults.add if recorded.is_default else self._defaults.discard)(name)

    def _checked_name(self, recorded: "_RegisteredObject") -> str:
        kind, registered = self.kind, recorded.registered
        name = getattr(registered, "name", None)
        missing = [attribute for attribute in kind.required if not hasattr(registered, attribute)]
        if not isinstance(name, str) or not name:
            raise self._failed(recorded.plugin_name, f"a {kind.name} needs a name, {registered!r} has {name!r}")
        if missing:
            raise self._failed(recorded.plugin_name, f"{kind.name} {name!r} lacks {', '.join(missing)}")
        problem = kind.problem(registered)
        if problem is not None:
            raise self._failed(recorded.plugin_name, f"{kind.name} {name!r}: {problem}")
        return name

    def _duplicate_error(self, name: str, plugin_name: str) -> PluginFailed:
        other = self.users[name]
        location = f"plugin {other} ({self._sources[other]})"
        return self._failed(plugin_name, f"{self.kind.name} {name!r} is registered by {location} too")

    def _failed(self, plugin_name: str, cause: str) -> PluginFailed:
        return PluginFailed(plugin_name, self._sources[plugin_name], cause)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RegisteredObject:
    """An object with the plugin that registered it; `is_default` if the plugin used `trylast`."""

    registered: object
    plugin_name: str
    is_default: bool


class _RegisterCall:
    """One call of a register hook.

    The call uses a separate plugin manager, where each implementation is registered in order with a function that
    records its result or exception. Objects that no implementation returned come from a wrapper; `wrapper` is the
    plugin of the outermost wrapper.
    """

    def __init__(self, hook: pluggy.HookCaller) -> None:
        self.recorded: list[_RegisteredObject] = []
        self.wrapper: str | None = None
        self._raised: list[tuple[BaseException, str]] = []
        self._name = hook.name
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        implementations = hook.get_hookimpls()
        # Of several `trylast` implementations, the last registered one is called last.
        last = [each for each in implementations if each.trylast]
        for implementation in [*reversed(last), *(each for each in implementations if not each.trylast)]:
            self._manager.register(SimpleNamespace(**{hook.name: self._recording(implementation)}))
        for implementation in implementations:
            if implementation.wrapper or implementation.hookwrapper:
                self.wrapper = implementation.plugin_name

    def objects(self, settings: Settings) -> list[_RegisteredObject]:
        """The registered objects, in the order of their plugins. Raises errors that no wrapper has handled."""
        results: Sequence[Sequence[object]] = getattr(self._manager.hook, self._name)(settings=settings)
        returned = {id(each.registered): each for each in self.recorded}
        return [
            returned.get(id(registered)) or self._from_wrapper(registered)
            for result in reversed(results)
            for registered in result
        ]

    def failed_plugin(self, error: BaseException) -> str:
        """The plugin that raised `error`."""
        name = next((name for raised, name in self._raised if raised is error), self.wrapper)
        assert name is not None, "without wrappers, all raised errors are recorded"
        return name

    def _from_wrapper(self, registered: object) -> _RegisteredObject:
        assert self.wrapper is not None, "without wrappers, all objects are recorded"
        return _RegisteredObject(registered=registered, plugin_name=self.wrapper, is_default=False)

    def _recording(self, implementation: pluggy.HookImpl) -> Callable[..., object]:
        if implementation.wrapper or implementation.hookwrapper:
            return implementation.function
        name, is_default = implementation.plugin_name, implementation.trylast
        takes = (*implementation.argnames, *implementation.kwargnames)

        def recording(settings: Settings) -> list[object] | None:
            arguments = {"settings": settings}
            try:
                result = implementation.function(**{argument: arguments[argument] for argument in takes})
                objects = None if result is None else list(result)  # type: ignore[call-overload]
            except (Exception, SystemExit) as error:
                self._raised.append((error, name))
                raise
            for registered in objects or ():
                self.recorded.append(_RegisteredObject(registered=registered, plugin_name=name, is_default=is_default))
            return objects

        marked = pluggy.HookimplMarker(PROJECT)(tryfirst=implementation.tryfirst, trylast=is_default)
        return marked(recording)
