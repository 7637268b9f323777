"""`kafkad plugins list`: what is loaded, left out or replaced, for people and as JSON."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkad.cli.commands.plugins import plugins

OWN = """
from kafkad.api import hookimpl

class Policy:
    name = "delete"
    def plan(self, log, config, now_ms):
        return []

@hookimpl
def kafkad_register_cleanup_policies():
    return [Policy()]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "broken.py").write_text("raise ValueError('no such luck')")
    return tmp_path


def listed(folder: Path, *arguments: str) -> str:
    done = CliRunner().invoke(plugins, ["list", "--folder", str(folder), *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_blocked_plugin_is_named_as_such(folder: Path) -> None:
    lines = listed(folder, "--override", "kafkad.plugins.blocked=broken").splitlines()
    assert any(line.startswith("broken ") and line.endswith(f"{folder}/broken.py (blocked)") for line in lines)
    assert any(line.strip() == "cleanup policy delete (not used because of plugin own)" for line in lines)
    assert any(line.startswith("retention ") for line in lines), "by this name it can be blocked"


def test_as_json_it_says_the_same(folder: Path) -> None:
    rows = json.loads(listed(folder, "--override", "kafkad.plugins.blocked=broken,retention", "--json"))
    by_name = {row["name"]: row for row in rows}
    assert {name for name, row in by_name.items() if row["blocked"]} == {"broken", "retention"}
    assert by_name["own"]["objects"] == [{"kind": "cleanup policy", "name": "delete", "replaced_by": None}]


def test_a_plugin_that_can_t_be_loaded_ends_the_command(folder: Path) -> None:
    done = CliRunner().invoke(plugins, ["list", "--folder", str(folder)])
    assert done.exit_code == 2
    assert "ValueError: no such luck" in done.output
