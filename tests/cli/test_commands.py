"""Every command explains itself, and nothing of the client is loaded to start a broker."""

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from kafkad.cli import main
from kafkad.cli.lazy_group import LazyGroup


def _commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from _commands(command, (*path, name))


COMMANDS = dict(_commands(main))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_of_every_command_has_an_example_of_that_command(path: tuple[str, ...]) -> None:
    printed = CliRunner().invoke(main, [*path, "--help"])
    assert printed.exit_code == 0
    example = printed.output.partition("Example:")[2]
    assert f"kafkad {' '.join(path)}" in example


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_of_every_command_is_explained(path: tuple[str, ...]) -> None:
    options = [each for each in COMMANDS[path].params if isinstance(each, click.Option) and not each.hidden]
    assert [option.name for option in options if not option.help and not isinstance(option.type, click.Choice)] == []


@pytest.mark.parametrize(
    "path",
    [
        ("topics", "create"),
        ("topics", "list"),
        ("topics", "describe"),
        ("topics", "delete"),
        ("groups", "list"),
        ("groups", "describe"),
        ("groups", "delete"),
        ("groups", "reset-offsets"),
        ("groups", "delete-offsets"),
        ("brokers", "list"),
        ("reassign", "start"),
        ("reassign", "generate"),
        ("reassign", "execute"),
        ("reassign", "verify"),
        ("reassign", "cancel"),
        ("reassign", "throttle"),
        ("reassign", "list"),
        ("elect-leaders",),
        ("log-dirs", "describe"),
        ("log-dirs", "move"),
        ("cleaner", "retry"),
        ("transactions", "list"),
        ("transactions", "describe"),
        ("transactions", "find-hanging"),
        ("produce",),
        ("consume",),
    ],
    ids=" ".join,
)
def test_commands_that_ask_a_broker_take_its_address_and_print_json(path: tuple[str, ...]) -> None:
    options = {option for each in COMMANDS[path].params for option in each.opts}
    assert {"--bootstrap-server", "--timeout", "--json"} <= options


def test_list_of_commands_shows_each_one_with_its_sentence() -> None:
    assert isinstance(main, LazyGroup)
    printed = CliRunner().invoke(main, ["--help"]).output
    for name, entry in main.commands_by_name.items():
        assert name in printed
        assert entry.summary in printed


def test_unknown_command_is_wrong_usage() -> None:
    outcome = CliRunner().invoke(main, ["strat"])
    assert outcome.exit_code == 2
    assert "strat" in outcome.output


def test_version_is_printed() -> None:
    assert CliRunner().invoke(main, ["--version"]).output.startswith("kafkad, version ")


def test_list_of_commands_loads_none_of_them() -> None:
    program = (
        "import sys; from kafkad.cli import main; main(['--help'], standalone_mode=False);"
        "print([name for name in sys.modules if name.startswith(('kio', 'zmq', 'kafkad.adapters'))])"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.splitlines()[-1] == "[]"


def test_reading_a_configuration_loads_no_client() -> None:
    program = (
        "import sys; from kafkad.cli import main; main(['check-config'], standalone_mode=False);"
        "print([name for name in sys.modules if 'broker_client' in name or name.startswith('kio')])"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.splitlines()[-1] == "[]"


def test_a_start_is_not_held_up_by_the_garbage_collector() -> None:
    """Modules leave no garbage, and a full collection walks through all of them."""
    code = """
import gc
from kafkad.cli import main

full = []
gc.callbacks.append(lambda phase, info: full.append(phase) if info["generation"] == 2 else None)
main(["start", "--help"], standalone_mode=False)
from kafkad.processes.supervisor.start import load_roles
load_roles()
gc.callbacks.clear()
assert full == [], len(full)
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
