"""The problems of a configuration: one line each, for the person who wrote it."""

from collections.abc import Iterable
from dataclasses import dataclass

_LONGEST_LINE = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigProblem:
    """`place` is where it was written, such as `server.properties line 12`; empty when that is not known."""

    name: str
    message: str
    place: str = ""

    def __str__(self) -> str:
        line = f"{self.name}: {self.message}" if self.name else self.message
        return _on_one_line(f"{self.place}: {line}" if self.place else line)


def _on_one_line(text: str) -> str:
    """Text from a file may have any length and may hold control characters for a terminal."""
    if len(text) > _LONGEST_LINE:
        text = f"{text[: _LONGEST_LINE // 2]}…{text[-_LONGEST_LINE // 2 :]}"
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)


class InvalidConfiguration(Exception):
    """The configuration can't be used; `problems` has a line for each reason, and the exit code is 2."""

    exit_code = 2

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
