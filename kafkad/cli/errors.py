"""Errors of commands, printed in one line. Imports only click."""

from collections.abc import Sequence
from typing import IO, Any

import click


def print_error(text: str) -> None:
    """Print an error on stderr in one line."""
    click.echo(f"kafkad: {' '.join(text.splitlines())}", err=True)


class WrongConfiguration(click.ClickException):
    """Ends the command: one line on stderr for each problem, exit code 2."""

    exit_code = 2

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)

    def show(self, file: IO[Any] | None = None) -> None:
        for line in self.lines:
            print_error(line)
