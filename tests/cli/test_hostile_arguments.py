"""No value of an option or argument makes a stack trace; what is wrong is one line and exit code 2."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kafkad.cli import main
from kafkad.cli.lazy_group import LazyGroup
from kafkad_lakehouse.cli.options import Duration, Size
from tests.cli.test_commands import COMMANDS

NUMBERS = (click.types.IntParamType, click.types.FloatParamType, Duration, Size)
HOSTILE = [
    *("", " ", "x", "nan", "inf", "-inf", "1e300", "0x10", "1\n2", "\udcff"),
    *("99999999999999999999", "-99999999999999999999", "9" * 5_000, f"{'9' * 5_000}d"),
]


def number_options() -> Iterator[tuple[tuple[str, ...], str]]:
    for path, command in COMMANDS.items():
        for param in command.params:
            if isinstance(param, click.Option) and isinstance(param.type, NUMBERS):
                yield path, param.opts[0]


@pytest.mark.parametrize(("path", "option"), list(number_options()), ids=lambda each: "".join(each[-1:]))
def test_a_number_beyond_its_field_is_wrong_usage(path: tuple[str, ...], option: str) -> None:
    accepted = []
    for value in HOSTILE:
        try:
            COMMANDS[path].make_context(path[-1], [f"{option}={value}"])
        except click.BadParameter as wrong:
            assert wrong.param is not None and option in wrong.param.opts
        else:
            accepted.append(value)
    assert accepted == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["topics", "create", "t", "--partitions", "99999999999999999999"], "'--partitions'"),
        (["topics", "create"], "Missing argument 'NAME'"),
        (["topics", "list", "--timeout", "nan"], "'--timeout': expected a number of seconds"),
        (["produce", "t", "--compression", "no\nsuch"], "'--compression'"),
        (["produce", "t", "--acks"], "'--acks' requires an argument"),
        (["topics", "lst"], "No such command 'lst'"),
        (["nothing"], "No such command 'nothing'"),
        (["topics", "delete", "caf\udce9"], "expected UTF-8 in arguments, found 'caf\\udce9'"),
        (["groups", "reset-offsets", "g", "--topic", f"t:{2**31}", "--to-latest"], "expected TOPIC or TOPIC:0,1"),
        (["groups", "reset-offsets", "g", "--topic", "t"], "expected one of --to-earliest"),
        (["cleaner", "status", "--metrics-listener", f"h:{'9' * 5_000}"], "expected HOST:PORT"),
        (["reassign", "start", "t", "--to", "9" * 5_000], "expected broker ids separated by commas"),
        (["export", "run", "--topic", "t", "--out", "/x", "--start", "9" * 5_000], "--start: expected earliest"),
    ],
)
def test_wrong_usage_is_one_line_with_exit_code_2(arguments: list[str], says: str) -> None:
    outcome = CliRunner().invoke(main, arguments)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("kafkad: ") and says in outcome.stderr
    assert outcome.stderr.count("\n") == 1


def test_a_group_alone_still_prints_its_help() -> None:
    outcome = CliRunner().invoke(main, ["topics"])
    assert "Commands:" in outcome.output and isinstance(main, LazyGroup)


OFFLINE = [
    *(("check-config",), ("stop",), ("dump-log",), ("adopt",), ("plugins", "list"), ("plugins", "remove")),
    *(("brokers", "end-session"), ("reassign", "execute"), ("reassign", "verify")),
    *(("export", name) for name in ("run", "status", "verify", "files", "maintain")),
]
"""Commands whose arguments are read before they ask anybody."""
TEXTS = ("", " ", "x" * 5_000, "é" * 200, "a\nb", "/dev/null", "/proc/self/mem", "s3://", "http://[", "~nobody/x")
WITHOUT_TEXTS = (*NUMBERS, click.types.BoolParamType, click.Choice)


def call(path: tuple[str, ...], hostile: click.Parameter, value: str, folder: str) -> list[str]:
    good = {"bootstrap": "127.0.0.1:1", "timeout_s": "0.1"}
    options, arguments = [], []
    for param in COMMANDS[path].params:
        given = value if param is hostile else good.get(str(param.name), folder if param.required else None)
        if given is not None and isinstance(param, click.Option):
            options.append(f"{param.opts[0]}={given}")
        elif given is not None:
            arguments.append(given)
    return [*path, *options, "--", *arguments]


@pytest.mark.parametrize("path", OFFLINE, ids=" ".join)
def test_no_path_and_no_address_makes_a_stack_trace(path: tuple[str, ...], tmp_path: Path) -> None:
    hostile = [each for each in COMMANDS[path].params if not isinstance(each.type, WITHOUT_TEXTS)]
    # Hosts with such names are asked for where there are some.
    hosts = {"bootstrap", "zookeeper", "catalog", "schema_registry"}
    for param in (each for each in hostile if each.name not in hosts):
        for value in TEXTS:
            outcome = CliRunner().invoke(main, call(path, param, value, str(tmp_path)))
            shown = (param.name, value[:20], outcome.stderr, outcome.exception)
            assert isinstance(outcome.exception, SystemExit | None), shown
            assert outcome.exit_code in (0, 1, 2), shown
            assert outcome.exit_code != 2 or outcome.stderr.count("\n") == 1, shown


@pytest.mark.parametrize("hosts", ["", "x" * 5_000, "a\nb", "a b", "é" * 200, "[", "h:0", "h:99999999", "h:port"])
def test_a_zookeeper_that_can_not_be_one_is_one_line(hosts: str, tmp_path: Path) -> None:
    outcome = CliRunner().invoke(main, ["adopt", str(tmp_path), f"--zookeeper={hosts}"])
    assert outcome.exit_code == 2 and outcome.stderr.count("\n") == 1, outcome.stderr
