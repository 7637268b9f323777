"""Common parts of commands that read a configuration: arguments, and messages for its problems."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from kafkad.cli.errors import WrongConfiguration
from kafkad.config import BrokerConfig, InvalidConfiguration, default_file, load

Command = TypeVar("Command", bound=Callable[..., Any])


def override_option(command: Command) -> Command:
    option = click.option(
        "--override",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override an option of the file; repeatable.",
    )
    return option(command)


def configuration_arguments(command: Command) -> Command:
    """The arguments of a command that reads a configuration: `file` and `overrides`."""
    return click.argument("file", metavar="[SERVER.PROPERTIES]", required=False)(override_option(command))


def configuration_from_arguments(file: str | None, overrides: Sequence[str]) -> BrokerConfig:
    """The configuration of `file`, else of the system's file, else the defaults, with `overrides`."""
    return read_configuration(file_or_default(file), parse_overrides(overrides))


def file_or_default(file: str | None) -> str | None:
    """The given file, else the system's file if it exists, else None for the defaults."""
    return file if file is not None else default_file()


def read_configuration(
    file: str | None, overrides: Sequence[tuple[str, str]], *, found_id: int | None = None
) -> BrokerConfig:
    """The configuration. Its problems end the command, with a line for each."""
    try:
        return load(file, overrides, found_id=found_id)
    except InvalidConfiguration as error:
        raise WrongConfiguration([str(problem) for problem in error.problems]) from None


def parse_overrides(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Each "key=value" as a pair."""
    pairs = [text.partition("=") for text in texts]
    wrong = [key for key, equals, _ in pairs if not equals or not key.strip()]
    if wrong:
        raise WrongConfiguration([f"--override: expected key=value, found {text!r}" for text in wrong])
    return [(key.strip(), value.strip()) for key, _, value in pairs]
