"""Options of `kafkad export` from a file."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafkad_lakehouse.cli.export import export
from kafkad_lakehouse.cli.request import request_of

EXAMPLE = Path(__file__).parents[3] / "spark/export.example.toml"
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
    assert "without a broker use --source files" in run


@ONE_FILE_FOR_ALL
def test_what_is_no_option_of_any_command_is_named(command: str, tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text('topic = "t"\nout = "/lake"\nformt = "delta"\n')
    assert f"{file}: formt is not an option of kafkad export" in said_with(command, file)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--catalog", "sqlite:////c.db"], "--catalog and --table need --format iceberg"),
        (["--format", "delta", "--table", "a.b"], "--catalog and --table need --format iceberg"),
        (["--schema-registry", "http://127.0.0.1:1"], "needs --value json, avro or protobuf"),
        (["--on-bad-record", "null"], "needs --value json, avro or protobuf"),
        (["--on-bad-record", "dlq"], "batches use --on-damage"),
        (["--keep", "latest", "--on-damage", "dlq"], "--on-damage skip or fail"),
        (["--value", "json", "--schema-message", "M"], "--schema-message needs --value protobuf"),
        (["--key", "avro"], "--key avro needs either --key-schema-file or --schema-registry"),
        (["--key", "string", "--key-schema-file", "/s"], "schema options of keys need --key json or avro"),
        (["--key", "json", "--key-schema-file", "/s", "--key-schema-subject", "s"], "needs --schema-registry"),
        (["--key", "json", "--key-schema-file", "/s", "--schema-registry", "http://r"], "--schema-registry needs"),
        (["--key", "json", "--key-schema-file", "/nowhere"], "--key-schema-file: /nowhere can't be read"),
        (["--key", "string", "--keep", "latest"], "--keep latest has no dead letters"),
        (["--value", "json", "--schema-file", "/s", "--schema-subject", "s"], "needs --schema-registry"),
        (["--target-file-size", "0"], "expected a size such as 256MiB, found '0'"),
        (["--metrics-file", "/nowhere/m.prom"], "--metrics-file: /nowhere/m.prom can't be written: No such file"),
        (["--metrics-file", "/proc"], "--metrics-file: /proc can't be written: Is a directory"),
        (["--start", "9" * 20], "--start: expected earliest, latest, milliseconds or a time like 2026-01-31T12:00"),
        (["--end", "9" * 20], "--end: expected latest, milliseconds or a time like 2026-01-31T12:00"),
        (["--start", "2026-02-30"], "--start: expected earliest, latest, milliseconds or a time"),
        (["--end", "1969-12-31"], "--end: expected latest, milliseconds or a time"),
        (["--out", ""], "--out: expected a folder or an address"),
        (["--log-dirs", "/nowhere/data"], "/nowhere/data is not a directory"),
    ],
)
def test_what_would_have_no_effect_or_no_place_is_told_before_the_work(
    options: list[str], said: str, tmp_path: Path
) -> None:
    asked = ["run", "--topic", "t", "--out", str(tmp_path / "t"), "--source", "files", "--bootstrap-server", "none"]
    done = CliRunner().invoke(export, [*asked, "--log-dirs", "/nowhere", *options])
    assert done.exit_code == (1 if "--log-dirs" in options else 2)
    assert said in done.output
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("when", "milliseconds"),
    [
        ("2026-01-31", "1769817600000"),
        ("2026-01-31T12:00:00.250", "1769860800250"),
        ("2026-01-31 13:00+01:00", "1769860800000"),
        ("2026-01-31T12:00Z", "1769860800000"),
        ("20260131", "20260131"),
        ("latest", "latest"),
    ],
)
def test_a_time_is_in_utc_unless_it_says_where(when: str, milliseconds: str) -> None:
    asked: dict[str, Any] = {
        "topic": "t",
        "out": "/lake",
        "format_": "parquet",
        "name": None,
        "log_dirs": "",
        "bootstrap": "none",
    }
    wanted = request_of(**asked, start=when, end=when)
    assert wanted.start == wanted.end == milliseconds


def test_a_file_with_a_list_for_a_text_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text('topic = "t"\nout = "/lake"\nlog-dirs = ["/a", "/b"]\n')
    assert f"{file}: log-dirs: expected text, a number, true or false" in said_with("run", file)
