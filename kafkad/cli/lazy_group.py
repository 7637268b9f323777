"""The groups of commands. `LazyGroup` imports a command's module when the command is used. It includes commands of
installed packages.

The groups handle Ctrl-C (no output, the exit code of shells for SIGINT), errors of writing the output, and wrong usage
(one line).
"""

import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
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
    """Lists its commands without importing them; `own_commands` is in the order of the help page.

    `entry_points` is a group of entry points, each a `LazyCommand` of an installed package. The help page has them
    before the command `entry_points_before`. They are read when commands are listed, or when a command is none of
    `own_commands`, which have precedence.
    """

    def __init__(
        self,
        *,
        own_commands: Mapping[str, LazyCommand],
        entry_points: str,
        entry_points_before: str,
        **attributes: Any,
    ) -> None:
        super().__init__(**attributes)
        self._own_commands = own_commands
        self._entry_points = entry_points
        self._entry_points_before = entry_points_before

    @cached_property
    def commands_by_name(self) -> Mapping[str, LazyCommand]:
        """All commands, in the order of the help page."""
        found: dict[str, LazyCommand] = {}
        for name, entry in self._own_commands.items():
            if name == self._entry_points_before:
                installed = _installed_commands(self._entry_points)
                found |= {each: installed[each] for each in installed if each not in self._own_commands}
            found[name] = entry
        return found

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands_by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self._own_commands.get(cmd_name) or self.commands_by_name.get(cmd_name)
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


def _installed_commands(group: str) -> dict[str, LazyCommand]:
    """The entry points of a group, by name."""
    # It takes as long as all other imports of the command line, and a start of the broker does not need it.
    from importlib.metadata import entry_points  # noqa: PLC0415

    found = {each.name: each.load() for each in sorted(entry_points(group=group), key=lambda point: point.name)}
    for name, entry in found.items():
        assert isinstance(entry, LazyCommand), f"{name} in {group} is {entry!r}, not a LazyCommand"
    return found


def _is_utf8(text: str) -> bool:
    """Whether the text has no undecodable bytes (PEP 383)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
