"""How a command ends that was asked for something wrong. Imports nothing but click, as many commands import it."""

from collections.abc import Sequence
from typing import IO, Any

import click


class WrongConfiguration(click.ClickException):
    """Ends the command: one line on stderr for each problem, exit code 2."""

    exit_code = 2

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)

    def show(self, file: IO[Any] | None = None) -> None:
        for line in self.lines:
            click.echo(f"kafkad: {line}", err=True, file=file)
