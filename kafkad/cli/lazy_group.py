"""The groups of commands. `LazyGroup` imports a command's module when the command is used.

The groups handle Ctrl-C (no output, the exit code of shells for SIGINT), errors of writing the output, and wrong usage
(one line).
"""

import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import IO, Any, NamedTuple

import click

from kafkad.cli.errors import print_error
from kafkad.standard_streams import drop_unwritten, hold_standard_streams, is_no_space, print_lines

INTERRUPTED = 130
NOT_WRITTEN = 1
YOUNG_OBJECTS = 10_000
"""For `gc.set_threshold`: imports create many objects and no garbage, so frequent collections would be wasted."""


class LazyCommand(NamedTuple):
    """The location of a command ("module:attribute"), and its line in the list of commands."""

    path: str
    summary: str


class WrongUsage(click.UsageError):
    """Ends the command: one line on stderr, exit code 2."""

    def show(self, file: IO[Any] | None = None) -> None:
        where = "" if self.ctx is None else f" ({self.ctx.command_path} --help)"
        print_error(f"{self.format_message()}{where}")


@contextmanager
def _in_one_line() -> Iterator[None]:
    try:
        yield
    except (click.exceptions.NoArgsIsHelpError, WrongUsage):
        raise
    except click.UsageError as wrong:
        raise WrongUsage(wrong.format_message(), wrong.ctx) from None


class CommandGroup(click.Group):
    """Handles the errors of all commands: see the module."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
        hold_standard_streams()
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            if not is_no_space(error):
                raise
            print_lines(f"kafkad: the output can't be written: {error.strerror}", sys.stderr)
            drop_unwritten()
            sys.exit(NOT_WRITTEN)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _in_one_line():
            for argument in args:
                if not _is_utf8(argument):
                    raise click.UsageError(f"expected UTF-8 in arguments, found {argument!r}")
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _in_one_line():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None


class LazyGroup(CommandGroup):
    """Lists its commands without importing them; `commands_by_name` is in the order of the help page."""

    def __init__(self, *, commands_by_name: Mapping[str, LazyCommand], **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands_by_name = commands_by_name

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands_by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.commands_by_name.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.path.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), f"{entry.path} is {command!r}, not a command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, entry.summary) for name, entry in self.commands_by_name.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _is_utf8(text: str) -> bool:
    """Whether the text has no undecodable bytes (PEP 383)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
