"""What `kafkad start` refuses before it is a broker."""

from pathlib import Path

from click.testing import CliRunner

from kafkad.cli import main


def test_each_mistake_in_the_configuration_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitons=3\nnum.io.threads=many\n")
    outcome = CliRunner().invoke(main, ["start", str(file)])
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    lines = outcome.stderr.splitlines()
    assert len(lines) == 2
    assert any("num.partitons" in line and "line 1" in line for line in lines)
    assert any("num.io.threads" in line and "line 2" in line for line in lines)


def test_file_that_is_not_there_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(main, ["start", str(tmp_path / "absent.properties")])
    assert outcome.exit_code == 2
    assert outcome.stderr == f"kafkad: can't read {tmp_path}/absent.properties: No such file or directory\n"
