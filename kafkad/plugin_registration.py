"""Which objects of one kind have plugins registered, and which are in use?

A register hook is called once, by pluggy's own rules: `tryfirst`, `trylast`, wrappers. Each object is kept with the
plugin that registered it, so that error messages have the plugin's name and file.
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
    needs: tuple[str, ...]
    problem: Callable[[Any], str | None] = lambda _: None


class Registration:
    """The objects of one kind, by name: which plugin has which (`by_plugin`), and which are in use."""

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
            raise self._failed(call.culprit(error), f"{kind.hook} failed: {type(error).__name__}: {error}") from error
        for brought in call.brought:
            self._note(brought)
        # Defaults (trylast) first: only they may be replaced.
        for brought in sorted(registered, key=lambda each: not each.is_default):
            self._use(brought)

    def replaced_by(self, plugin_name: str, name: str) -> str | None:
        """The plugin because of which this one's object is not used, if there is one."""
        user = self.users.get(name, self.wrapper)
        return None if user == plugin_name else user

    def _note(self, brought: "_Brought") -> str:
        name = self._checked_name(brought)
        names = self.by_plugin.setdefault(brought.plugin_name, [])
        if name not in names:
            names.append(name)
        return name

    def _use(self, brought: "_Brought") -> None:
        name = self._note(brought)
        if name in self.users and name not in self._defaults:
            raise self._twice(name, brought.plugin_name)
        self.in_use[name] = brought.registered
        self.users[name] = brought.plugin_name
        (self._defaults.add if brought.is_default else self._defaults.discard)(name)

    def _checked_name(self, brought: "_Brought") -> str:
        kind, registered = self.kind, brought.registered
        name = getattr(registered, "name", None)
        missing = [attribute for attribute in kind.needs if not hasattr(registered, attribute)]
        if not isinstance(name, str) or not name:
            raise self._failed(brought.plugin_name, f"a {kind.name} needs a name, {registered!r} has {name!r}")
        if missing:
            raise self._failed(brought.plugin_name, f"{kind.name} {name!r} lacks {', '.join(missing)}")
        problem = kind.problem(registered)
        if problem is not None:
            raise self._failed(brought.plugin_name, f"{kind.name} {name!r}: {problem}")
        return name

    def _twice(self, name: str, plugin_name: str) -> PluginFailed:
        other = self.users[name]
        where = f"plugin {other} ({self._sources[other]})"
        return self._failed(plugin_name, f"{self.kind.name} {name!r} is registered by {where} too")

    def _failed(self, plugin_name: str, cause: str) -> PluginFailed:
        return PluginFailed(plugin_name, self._sources[plugin_name], cause)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Brought:
    """An object with the plugin that registered it; `is_default` if that used `trylast`."""

    registered: object
    plugin_name: str
    is_default: bool


class _RegisterCall:
    """One call of a register hook.

    The call uses a manager of its own, where each implementation is registered alone, in its order, and its result
    or exception is noted. An object that no implementation returned came from a wrapper; `wrapper` is the outermost
    one.
    """

    def __init__(self, hook: pluggy.HookCaller) -> None:
        self.brought: list[_Brought] = []
        self.wrapper: str | None = None
        self._raised: list[tuple[BaseException, str]] = []
        self._name = hook.name
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        implementations = hook.get_hookimpls()
        # The one of several `trylast` that is registered last is called last.
        last = [each for each in implementations if each.trylast]
        for implementation in [*reversed(last), *(each for each in implementations if not each.trylast)]:
            self._manager.register(SimpleNamespace(**{hook.name: self._noted(implementation)}))
        for implementation in implementations:
            if implementation.wrapper or implementation.hookwrapper:
                self.wrapper = implementation.plugin_name

    def objects(self, settings: Settings) -> list[_Brought]:
        """The registered objects, in the order of their plugins; raises errors that no wrapper has handled."""
        answers: Sequence[Sequence[object]] = getattr(self._manager.hook, self._name)(settings=settings)
        known = {id(each.registered): each for each in self.brought}
        return [
            known.get(id(registered)) or self._from_wrapper(registered)
            for answer in reversed(answers)
            for registered in answer
        ]

    def culprit(self, error: BaseException) -> str:
        """The plugin that has raised `error`."""
        name = next((name for raised, name in self._raised if raised is error), self.wrapper)
        assert name is not None, "without wrappers, only what is noted can be raised"
        return name

    def _from_wrapper(self, registered: object) -> _Brought:
        assert self.wrapper is not None, "without wrappers, there is only what was brought"
        return _Brought(registered=registered, plugin_name=self.wrapper, is_default=False)

    def _noted(self, implementation: pluggy.HookImpl) -> Callable[..., object]:
        if implementation.wrapper or implementation.hookwrapper:
            return implementation.function
        name, is_default = implementation.plugin_name, implementation.trylast
        takes = (*implementation.argnames, *implementation.kwargnames)

        def noted(settings: Settings) -> list[object] | None:
            known = {"settings": settings}
            try:
                answer = implementation.function(**{argument: known[argument] for argument in takes})
                objects = None if answer is None else list(answer)  # type: ignore[call-overload]
            except (Exception, SystemExit) as error:
                self._raised.append((error, name))
                raise
            for registered in objects or ():
                self.brought.append(_Brought(registered=registered, plugin_name=name, is_default=is_default))
            return objects

        marked = pluggy.HookimplMarker(PROJECT)(tryfirst=implementation.tryfirst, trylast=is_default)
        return marked(noted)
