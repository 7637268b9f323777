"""Options of `kafkad export` from a file."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkad.cli.commands.export import export

EXAMPLE = Path(__file__).parents[2] / "spark/export.example.toml"
ONE_FILE_FOR_ALL = pytest.mark.parametrize("command", ["run", "status", "verify", "maintain", "files"])


def said_with(command: str, file: Path, *options: str) -> str:
    done = CliRunner().invoke(export, [command, "--conf-file", str(file), *options])
    return f"{done.output} {done.exception}"


@ONE_FILE_FOR_ALL
def test_the_example_of_a_file_serves_every_command(command: str, tmp_path: Path) -> None:
    options = ("--bootstrap-server", "none", "--out", str(tmp_path / "table"))
    said = said_with(command, EXAMPLE, *options)
    assert "no option" not in said and "Missing option" not in said


def test_what_a_file_says_is_what_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(f'topic = "t"\nout = "{tmp_path}"\nformat = "delta"\ntimeout = 0.2\n')
    (tmp_path / "stranger.csv").write_text("")
    assert "stranger.csv" in said_with("files", tmp_path / "t.toml")
    elsewhere = ["files", "--conf-file", str(tmp_path / "t.toml"), "--out", str(tmp_path / "empty")]
    assert CliRunner().invoke(export, elsewhere).exit_code == 0
    run = said_with("run", tmp_path / "t.toml", "--bootstrap-server", "none")
    assert "without a broker segment files are read" in run


@ONE_FILE_FOR_ALL
def test_what_is_no_option_of_any_command_is_named(command: str, tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text('topic = "t"\nout = "/lake"\nformt = "delta"\n')
    assert f"{file}: formt is no option of kafkad export" in said_with(command, file)
