"""What a command of `kafkad export` imports before it has work to do: a run each minute pays for it each minute."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from bench.brokers.processes import WITHIN_S

_CODE = """
import sys
from kafkad.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    print(sorted(sys.modules))
"""
_LIBRARIES = ("kio", "numpy", "pyarrow", "crc32c", "asyncio")
_OF_VALUES = ("values.opening", "values.batches", "values.registry", "values.framing", "values.json_values")
_OF_OTHER_COMMANDS = (
    *("kafkad.client.groups", "kafkad.client.configs", "kafkad.client.producing"),
    *("kio.schema.create_topics", "kio.schema.delete_topics", "kio.schema.describe_configs", "kio.schema.produce"),
    "kafkad_lakehouse.export.verification",
)
_OF_TASKS = (
    *("pyarrow.compute", "pyarrow.dataset"),
    *("kafkad_lakehouse.export.latest", "kafkad_lakehouse.export.engines.processes"),
)
_OF_TABLES = ("obstore", "deltalake", "pyiceberg", "pyspark", "kafkad_lakehouse.export.sinks.delta")


def loaded_by(*words: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", _CODE, *words], capture_output=True, text=True, timeout=WITHIN_S)
    return set(ast.literal_eval(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("words", [["--help"], ["export", "--help"], ["export", "run", "--help"]])
def test_help_needs_no_library_but_that_of_the_command_line(words: list[str]) -> None:
    assert not loaded_by(*words) & {*_LIBRARIES}


def test_a_run_starts_with_what_it_asks_the_broker_and_the_table_with(tmp_path: Path) -> None:
    asked = ["--topic", "t", "--out", str(tmp_path / "t"), "--bootstrap-server", "127.0.0.1:1"]
    loaded = loaded_by("export", "run", *asked)
    assert {"kafkad_lakehouse.export.preparation", "kafkad_lakehouse.export.run", "pyarrow.lib"} <= loaded
    unwanted = {
        *_OF_OTHER_COMMANDS,
        *_OF_TASKS,
        *_OF_TABLES,
        *(f"kafkad_lakehouse.export.{name}" for name in _OF_VALUES),
    }
    assert not loaded & unwanted
