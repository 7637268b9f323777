"""Commands of installed packages: found when they are called or listed, and not before."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.brokers.processes import WITHIN_S
from kafkad.cli import main
from kafkad.cli.lazy_group import LazyCommand, LazyGroup

_MODULE = """
import click
from kafkad.cli.lazy_group import LazyCommand

@click.command()
def greet():
    click.echo("hello")

GREET = LazyCommand("greetings:greet", "Greet everybody.")
LAST = LazyCommand("greetings:absent", "Replace a command of kafkad.")
"""


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LazyGroup:
    """Commands, and a package with two more, one of the same name."""
    package = tmp_path / "greetings-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\n")
    points = "greet = greetings:GREET\nlast = greetings:LAST\n"
    (package / "entry_points.txt").write_text(f"[tests.commands]\n{points}")
    (tmp_path / "greetings.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    own = {name: LazyCommand("kafkad.cli.commands.stop:stop", f"The {name}.") for name in ("first", "last")}
    return LazyGroup(name="some", own_commands=own, entry_points="tests.commands", entry_points_before="last")


def test_command_of_a_package_is_listed_at_its_place(group: LazyGroup) -> None:
    printed = CliRunner().invoke(group, ["--help"]).output
    rows = [line.split(maxsplit=1) for line in printed.partition("Commands:\n")[2].splitlines()]
    assert rows == [["first", "The first."], ["greet", "Greet everybody."], ["last", "The last."]]


def test_command_of_a_package_runs(group: LazyGroup) -> None:
    assert CliRunner().invoke(group, ["greet"]).output == "hello\n"


def test_export_is_found_only_by_its_entry_point() -> None:
    own = LazyGroup(name="kafkad", own_commands={}, entry_points="kafkad.commands", entry_points_before="plugins")
    assert "export" not in own.commands_by_name
    assert list(main.commands_by_name)[-2:] == ["export", "plugins"]


@pytest.mark.parametrize("words", [["start", "--help"], ["topics", "list", "--help"], ["--version"]])
def test_other_commands_look_for_no_package(words: list[str]) -> None:
    code = f"""
import importlib.metadata, sys
entry_points = importlib.metadata.entry_points

def watch(*, group):
    assert group != "kafkad.commands"
    return entry_points(group=group)

importlib.metadata.entry_points = watch
from kafkad.cli import main
main({words}, standalone_mode=False)
print([name for name in sys.modules if name.startswith(("kafkad_lakehouse", "pyspark"))])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WITHIN_S)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
