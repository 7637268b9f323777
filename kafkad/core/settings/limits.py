"""The valid values of an option. Each limit has Kafka's own error text, so that users find it by search."""

import re
from dataclasses import dataclass

from kafkad.core.settings.values import Value, value_text


@dataclass(frozen=True, slots=True)
class Between:
    """A number from `least` to `most`; None: no bound."""

    least: float | int | None
    most: float | int | None = None

    def problem(self, value: Value) -> tuple[str, str] | None:
        if not isinstance(value, int | float):
            return None
        if self.least is not None and value < self.least:
            return value_text(value) or "", f"Value must be at least {self.least}"
        if self.most is not None and value > self.most:
            return value_text(value) or "", f"Value must be no more than {self.most}"
        return None

    def __str__(self) -> str:
        if self.most is None:
            return f"at least {self.least}"
        return f"{self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several words."""

    words: tuple[str, ...]
    ignore_case: bool = False

    def problem(self, value: Value) -> tuple[str, str] | None:
        if not isinstance(value, str):
            return None
        if value in self.words or (self.ignore_case and value.upper() in self.words):
            return None
        words = ", ".join(self.words)
        return value, f"String must be one of{' (case insensitive)' if self.ignore_case else ''}: {words}"

    def __str__(self) -> str:
        return "one of " + ", ".join(self.words)


@dataclass(frozen=True, slots=True)
class EachOneOf:
    """A list of these words, in any order, with repetitions."""

    words: tuple[str, ...]

    def problem(self, value: Value) -> tuple[str, str] | None:
        for word in value if isinstance(value, tuple) else ():
            if word not in self.words:
                return word, "String must be one of: " + ", ".join(self.words)
        return None

    def __str__(self) -> str:
        return "any of " + ", ".join(self.words)


@dataclass(frozen=True, slots=True)
class EachOneOfOrPlugins:
    """A list of these words and names of plugins, which are checked when the plugins are loaded."""

    words: tuple[str, ...]

    def problem(self, value: Value) -> tuple[str, str] | None:
        return None

    def __str__(self) -> str:
        return "any of " + ", ".join(self.words) + ", and names from plugins"


@dataclass(frozen=True, slots=True)
class GzipLevel:
    """zlib's levels, or -1 for zlib's default."""

    def problem(self, value: Value) -> tuple[str, str] | None:
        if isinstance(value, int) and value != -1 and not 1 <= value <= 9:
            return str(value), "Value must be between 1 and 9 or equal to -1"
        return None

    def __str__(self) -> str:
        return "1 to 9, or -1"


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """A non-empty text or list."""

    def problem(self, value: Value) -> tuple[str, str] | None:
        return ("", "String must be non-empty") if value in ("", ()) else None

    def __str__(self) -> str:
        return "not empty"


_THROTTLED = re.compile(r"\s*(?:[0-9]+:[0-9]+)?\s*")


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """`*`, or partition:broker pairs."""

    name: str

    def problem(self, value: Value) -> tuple[str, str] | None:
        pairs = value if isinstance(value, tuple) else ()
        if pairs == ("*",) or all(map(_THROTTLED.fullmatch, pairs)):
            return None
        expected = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        message = f"must be the literal '*' or a list of replicas in the following format: {expected}"
        return f"[{', '.join(pairs)}]", f"{self.name} {message}"

    def __str__(self) -> str:
        return "* or partition:broker, …"
