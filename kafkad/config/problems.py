"""The problems of a configuration, one line each."""

from collections.abc import Iterable
from dataclasses import dataclass

_LONGEST_LINE = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigProblem:
    """`place` is the source, such as `server.properties line 12`; empty if unknown."""

    name: str
    message: str
    place: str = ""

    def __str__(self) -> str:
        line = f"{self.name}: {self.message}" if self.name else self.message
        return _on_one_line(f"{self.place}: {line}" if self.place else line)


def _on_one_line(text: str) -> str:
    """Shorten the text and escape control characters: it may come from a file."""
    if len(text) > _LONGEST_LINE:
        text = f"{text[: _LONGEST_LINE // 2]}…{text[-_LONGEST_LINE // 2 :]}"
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)


class InvalidConfiguration(Exception):
    """The configuration is invalid; `problems` has a line for each problem. Exit code 2."""

    exit_code = 2

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
