"""The values of all options, and the problems of their texts.

Later layers win: file, then cluster-wide changes, then changes of this broker. Unknown names, invalid values and
rejected options are problems; options without effect are notices. rules.py finds contradictions between options.
"""

from dataclasses import dataclass, field

from kafkad.config.entities.broker import Texts
from kafkad.config.problems import ConfigProblem
from kafkad.config.table import BROKER_TABLE, REPLACED_NAMES, find, suggestion
from kafkad.core.settings.option import InvalidSetting, Setting, Support
from kafkad.core.settings.values import Value


@dataclass(slots=True)
class Resolved:
    """Filled option by option, read-only afterwards."""

    values: dict[str, Value]
    problems: list[ConfigProblem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


_MAX_SUGGESTIONS = 20


def resolve(texts: Texts) -> Resolved:
    resolved = Resolved({name: setting.default for name, setting in BROKER_TABLE.items()})
    resolved.values.update(texts.defaults)
    for name, text in texts.written.items():
        setting = find(name)
        if setting is None:
            # The search for a similar name is slow, so it is limited.
            message = _unknown(name) if len(resolved.problems) < _MAX_SUGGESTIONS else "unknown option"
            resolved.problems.append(ConfigProblem(name=name, message=message))
        else:
            _resolve_one(setting, text, resolved)
    return resolved


def _resolve_one(setting: Setting, text: str, resolved: Resolved) -> None:
    if "\0" in text:
        resolved.problems.append(ConfigProblem(name=setting.name, message="the value has a NUL character"))
        return
    try:
        value = setting.parse(text)
    except InvalidSetting as error:
        resolved.problems.append(ConfigProblem(name=setting.name, message=str(error)))
        return
    resolved.values[setting.name] = value
    status = setting.status
    if status.support is Support.NO_EFFECT:
        resolved.notices.append(f"{setting.name} has no effect: {status.reason}")
    elif status.support is Support.REFUSED and not is_harmless(setting, value):
        resolved.problems.append(ConfigProblem(name=setting.name, message=f"rejected: {status.reason}"))


def is_harmless(setting: Setting, value: Value) -> bool:
    """Whether a rejected option has a value without effect."""
    return value == setting.default or value in ("", (), None) or value in setting.status.harmless


def _unknown(name: str) -> str:
    if name in REPLACED_NAMES:
        return f"no longer an option; {REPLACED_NAMES[name]}"
    nearest = suggestion(name)
    return f"unknown option; did you mean {nearest}?" if nearest else "unknown option"
