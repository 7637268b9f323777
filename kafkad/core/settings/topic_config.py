"""Topic configs of plugins.

The plugin defines name, type, default, limits and one sentence. The broker handles the config like Kafka's own: it
checks new values, stores them with the topic and returns them in DescribeConfigs.
"""

import re
from dataclasses import dataclass

from kafkad.core.settings.option import InvalidSetting, Setting, SettingType, Validator
from kafkad.core.settings.rows import CLUSTER_WIDE, MEDIUM, STRING, row
from kafkad.core.settings.values import Value, value_text

PLUGIN_PREFIX = "kafkad.plugin."
"""No option of Kafka has this prefix."""
_NAME = re.compile(re.escape(PLUGIN_PREFIX) + r"[a-zA-Z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """A topic config of a plugin. `name` starts with `kafkad.plugin.`; topics without a value have `default`."""

    name: str
    type: SettingType
    default: Value
    documentation: str
    validator: Validator | None = None


def setting_of(config: TopicConfig) -> Setting:
    """The settings row of this config."""
    limits = _Guarded(config.name, config.validator) if config.validator is not None else None
    return row(config.name, config.type, config.default, limits, MEDIUM, CLUSTER_WIDE, config.documentation)


def problem_of(config: TopicConfig) -> str | None:
    """The problem that prevents the registration; None if there is none."""
    if not _NAME.fullmatch(config.name):
        return f"expected a name of letters, digits, '.', '_' and '-' that begins with {PLUGIN_PREFIX}"
    if not isinstance(config.type, SettingType):
        return f"expected a SettingType, found {config.type!r}"
    if not isinstance(config.documentation, str) or not config.documentation:
        return "expected a sentence as its documentation"
    if config.default is None:
        return None
    try:
        value = setting_of(config).parse(value_text(config.default) or "")
    except InvalidSetting as error:
        return f"the default is invalid: {error}"
    if value != config.default:
        return f"the default {config.default!r} is no {config.type.name}, expected {value!r}"
    return None


def is_of_plugin(name: str) -> bool:
    """Whether `name` is a config of a plugin, loaded or not."""
    return name.startswith(PLUGIN_PREFIX)


def of_unloaded_plugin(name: str) -> Setting:
    """The settings row of a stored config whose plugin is not loaded."""
    return row(name, STRING, None, None, MEDIUM, CLUSTER_WIDE, "Config of a plugin that is not loaded.")


def of_another_version(name: str) -> Setting:
    """The settings row of a stored config that this version does not support: it can be described and removed."""
    return row(name, STRING, None, None, MEDIUM, CLUSTER_WIDE, "Not known to this version, without effect.")


@dataclass(frozen=True, slots=True)
class _Guarded:
    """Limits in a plugin's code: if they raise an exception, the value is rejected, and the broker continues."""

    name: str
    limits: Validator

    def problem(self, value: Value) -> tuple[str, str] | None:
        try:
            problem = self.limits.problem(value)
            if problem is None:
                return None
            offender, message = problem
            return str(offender), str(message)
        except Exception as error:
            raise InvalidSetting(self.name, value_text(value), f"the plugin's validator failed: {error!r}") from error

    def __str__(self) -> str:
        return str(self.limits)
