"""One configuration option, and how its text is parsed.

A `Setting` is a row of the table that every domain declares next to its code. Text is parsed exactly as by Apache
Kafka, and errors have Kafka's texts. kafkad.config reads files and arguments.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Protocol

from kafkad.core.quoting import quoted
from kafkad.core.settings.values import Value, parse_boolean, parse_double, parse_integer, parse_list, value_text


class SettingType(IntEnum):
    """The numbers of the protocol, in DescribeConfigs responses."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(Enum):
    """Whether an option can change while the broker runs, and for single brokers or the whole cluster."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Support(Enum):
    WORKING = "working"
    NO_EFFECT = "no effect"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The support of an option; `harmless` values of a rejected option are accepted."""

    support: Support
    reason: str = ""
    harmless: tuple[Value, ...] = ()


WORKING = Status(support=Support.WORKING)


def no_effect(reason: str) -> Status:
    return Status(support=Support.NO_EFFECT, reason=reason)


def refused(reason: str, *harmless: Value) -> Status:
    return Status(support=Support.REFUSED, reason=reason, harmless=harmless)


class InvalidSetting(ValueError):
    """An invalid value of an option; the text is Kafka's."""

    def __init__(self, name: str, value: object, message: str) -> None:
        super().__init__(f"Invalid value {quoted(str(value))} for configuration {name}: {message}")


class Validator(Protocol):
    def problem(self, value: Value) -> tuple[str, str] | None:
        """(invalid part of `value` as text, problem); None if the value is valid."""

    def __str__(self) -> str:
        """The allowed values, for the docs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One option: its Kafka name, type, default, limits, and one sentence for operators."""

    name: str
    type: SettingType
    default: Value
    validator: Validator | None
    importance: Importance
    update_mode: UpdateMode
    documentation: str
    status: Status = WORKING
    internal: bool = False

    def parse(self, text: str) -> Value:
        """The value of `text`; raises `InvalidSetting`, also for a value outside the limits."""
        value = self.read(text)
        self.check(value)
        return value

    def read(self, text: str) -> Value:
        """The value of `text`, without a check of the limits; raises `InvalidSetting`."""
        try:
            return _parse(text.strip(_TRIMMED), self.type)
        except ValueError as error:
            raise InvalidSetting(self.name, text, str(error)) from None

    def check(self, value: Value) -> None:
        """Raises `InvalidSetting` for a value outside the limits."""
        problem = self.validator.problem(value) if self.validator is not None else None
        if problem is not None:
            offender, message = problem
            raise InvalidSetting(self.name, offender, message)

    def text(self, value: Value) -> str | None:
        """`value` as text for DescribeConfigs."""
        return value_text(value)

    @property
    def default_text(self) -> str | None:
        return value_text(self.default)

    @property
    def is_sensitive(self) -> bool:
        return self.type is SettingType.PASSWORD


# Java's String.trim: removes all characters up to and including the space, and no others.
_TRIMMED = "".join(map(chr, range(33)))


def _parse(text: str, setting_type: SettingType) -> Value:
    match setting_type:
        case SettingType.BOOLEAN:
            return parse_boolean(text)
        case SettingType.INT | SettingType.LONG | SettingType.SHORT:
            return parse_integer(text, setting_type.name)
        case SettingType.DOUBLE:
            return parse_double(text)
        case SettingType.LIST:
            return parse_list(text)
        case _:
            return text
