"""Every option and argument of every command that asks a broker, with hostile values: no stack trace, wrong usage in
one line.

A real broker: values get as far as the requests, and its refusals come back.
"""

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S
from kafkad.cli import main
from tests.cli.test_commands import COMMANDS

TEXTS = ("", " ", "-1", "a b", "t-99999999999999999999", "\n", "caf\udce9", "é" * 20_000, "9" * 5_000, "=", ",", ":")
ADDRESSES = ("", ":", "[", "h:0", "h:99999999999999999999", f"h:{'9' * 5_000}", "caf\udce9:9092", "x" * 40_000)
NUMBERS = ("-1", "0", "2147483647", "2147483648", "9223372036854775807", "99999999999999999999", "nan", "inf", "1e300")
RUNS_APART = {("produce",)}
"""It reads the descriptor of standard input."""
TIMES = ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "1969-01-01", "x")
GOOD = {"partition": "0", "to": "0", "out": "/nowhere", "group": "g"}


def asking_commands() -> dict[tuple[str, ...], click.Command]:
    return {
        path: command
        for path, command in COMMANDS.items()
        if path[0] != "export" and any(param.name == "bootstrap" for param in command.params)
    }


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafkad]:
    with Kafkad(tmp_path_factory.mktemp("hostile")) as started:
        yield started


def values_for(param: click.Parameter) -> tuple[str, ...]:
    if param.name == "bootstrap":
        return ADDRESSES
    if param.name == "to_time_ms":
        return TIMES
    return NUMBERS if isinstance(param.type, click.types.IntParamType | click.types.FloatParamType) else TEXTS


def calls(path: tuple[str, ...], command: click.Command, bootstrap: str) -> Iterator[list[str]]:
    """Each parameter with each value; what else is required has a good one."""
    for hostile in command.params:
        if isinstance(hostile.type, click.types.BoolParamType | click.File | click.Choice):
            continue
        for value in values_for(hostile):
            options, arguments = [], []
            for param in command.params:
                given = value if param is hostile else default_of(param, bootstrap, path)
                if given is None:
                    continue
                if isinstance(param, click.Option):
                    options.append(f"{param.opts[0]}={given}")
                else:
                    arguments.append(given)
            yield [*path, *options, "--", *arguments]


def default_of(param: click.Parameter, bootstrap: str, path: tuple[str, ...]) -> str | None:
    if param.name == "bootstrap":
        return bootstrap
    if param.name == "timeout_s":
        return "2"
    if param.name == "timeout_ms" and path == ("consume",):
        return "1"
    return GOOD.get(param.opts[0].strip("-"), "t") if param.required else None


@pytest.mark.parametrize("path", [path for path in asking_commands() if path not in RUNS_APART], ids=" ".join)
def test_no_value_of_an_argument_makes_a_stack_trace(broker: Kafkad, path: tuple[str, ...]) -> None:
    for call in calls(path, COMMANDS[path], broker.bootstrap):
        outcome = CliRunner().invoke(main, call)
        shown = [each[:80] for each in call]
        assert isinstance(outcome.exception, SystemExit | None), (shown, outcome.exception)
        assert outcome.exit_code in (0, 1, 2), shown
        assert outcome.exit_code != 2 or outcome.stderr.count("\n") == 1, (shown, outcome.stderr)
        assert outcome.exit_code == 0 or outcome.stderr.startswith("kafkad: "), (shown, outcome.stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ["", "--acks=1"],
        ["t", "--partition=2147483647"],
        ["t", "--header=é=caf\udce9"],
        ["t", f"--header={'k' * 40_000}={'v' * 40_000}"],
        ["é" * 20_000],
        ["t", "--key-separator=\udcff"],
    ],
    ids=["no name", "partition", "no UTF-8", "long header", "long name", "separator"],
)
def test_produce_makes_no_stack_trace(broker: Kafkad, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "kafkad", "produce", *arguments, "--timeout=2", "--bootstrap-server"]
    done = subprocess.run(
        [*command, broker.bootstrap], input=b"a\n", capture_output=True, timeout=WITHIN_S, check=False
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert done.returncode in (0, 1, 2) and done.stderr.count(b"\n") <= 1, done.stderr.decode()
