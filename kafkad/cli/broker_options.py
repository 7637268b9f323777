"""Common parts of commands that send requests to a broker: address, timeout, errors, names of topics and partitions.

If a broker returns an error or does not respond, the command prints one line on stderr and exits with code 1.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, TypeVar

import click

from kafkad.cli.errors import print_error
from kafkad.cli.options import DEFAULT_BOOTSTRAP, number_in, timeout_option
from kafkad.client.broker_client import BrokerClient, TopicDescription
from kafkad.client.connection import BrokerCallFailed

Command = TypeVar("Command", bound=Callable[..., Any])


class CommandFailed(click.ClickException):
    """Ends the command: one line on stderr, exit code 1."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        print_error(self.format_message())


def broker_options(command: Command) -> Command:
    """The options of a command that sends requests to a broker: `bootstrap` and `timeout_s`."""
    bootstrap = click.option(
        "--bootstrap-server",
        "bootstrap",
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        metavar="HOST:PORT",
        help="Bootstrap servers, separated by commas.",
    )
    return bootstrap(timeout_option(10.0)(command))


@contextmanager
def connected_client(bootstrap: str, timeout_s: float) -> Iterator[BrokerClient]:
    """A client for the body; its errors end the command."""
    try:
        with BrokerClient(bootstrap, timeout_s) as client:
            yield client
    except BrokerCallFailed as failed:
        raise CommandFailed(str(failed)) from None


def named_partitions(names: Sequence[str], topics: Sequence[TopicDescription]) -> list[tuple[str, int]]:
    """`orders` is all partitions of a topic, `orders-3` is one partition, unless a topic has this name."""
    known = {topic.name: [row.partition for row in topic.partitions] for topic in topics}
    found: list[tuple[str, int]] = []
    for name in names:
        topic, _, number = name.rpartition("-")
        if name in known:
            found += ((name, each) for each in known[name])
        elif (index := number_in(number)) is not None and index in known.get(topic, ()):
            found.append((topic, index))
        else:
            raise CommandFailed(f"no topic or partition {name} exists")
    return list(dict.fromkeys(found))
