"""`kafkad plugins install` and `remove`: into a folder, with real pip and wheels made by hand, without an index."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from bench.brokers.processes import WITHIN_S
from tests.tools.wheels import PLUGIN, plugin_wheel, write_wheel

CHECKOUT = Path(__file__).parents[2]


class Folder:
    """A plugins folder and the command, in processes of their own as they are used."""

    def __init__(self, path: Path, wheels: Path) -> None:
        self.path = path
        self._environment = {"PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}

    def kafkad(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "kafkad", "plugins", *arguments],
            env=self._environment,
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
        )

    def install(self, what: Path | str) -> str:
        done = self.kafkad("install", str(what), "--folder", str(self.path))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refuses(self, what: Path | str) -> str:
        """The one line that says why."""
        done = self.kafkad("install", str(what), "--folder", str(self.path))
        assert done.returncode == 2, done.stdout
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    def remove(self, name: str) -> subprocess.CompletedProcess[str]:
        return self.kafkad("remove", name, "--folder", str(self.path))

    def listed(self) -> str:
        done = self.kafkad("list", "--folder", str(self.path))
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "plugins", tmp_path)


def test_file_is_installed_listed_and_removed(folder: Folder, tmp_path: Path) -> None:
    file = tmp_path / "quick.py"
    file.write_text(PLUGIN.format(policy="quick"))
    said = folder.install(file)
    assert "next start" in said and "systemctl" not in said, "no service reads this folder"
    assert "cleanup policy quick" in folder.listed()
    assert folder.remove("quick").returncode == 0
    assert "quick" not in folder.listed()


def test_wheel_is_installed_listed_and_removed(folder: Folder, tmp_path: Path) -> None:
    assert "with my-plugin in" in folder.install(plugin_wheel(tmp_path, "my-plugin"))
    assert "my-plugin 1.0" in folder.listed()
    assert "removed my-plugin 1.0" in folder.remove("my-plugin").stdout
    assert "my-plugin" not in folder.listed()


def test_package_brings_what_kafkad_does_not_have_and_nothing_else(folder: Folder, tmp_path: Path) -> None:
    write_wheel(tmp_path, "needed", "2.0", {"needed.py": ""})
    plugin_wheel(tmp_path, "my-plugin", requires=["needed", "pluggy"], head="import needed\n")
    folder.install("my-plugin")
    brought = {path.name for path in (folder.path / "packages" / "my-plugin").glob("*.dist-info")}
    assert brought == {"my_plugin-1.0.dist-info", "needed-2.0.dist-info"}
    assert "cleanup policy my-plugin" in folder.listed()


def test_package_that_wants_another_version_of_what_kafkad_carries_is_refused_by_name(
    folder: Folder, tmp_path: Path
) -> None:
    said = folder.refuses(plugin_wheel(tmp_path, "my-plugin", requires=["pluggy<1"]))
    assert f"kafkad has pluggy=={version('pluggy')}" in said
    assert "my-plugin 1.0 depends on pluggy<1" in said
    assert not (folder.path / "packages" / "my-plugin").exists()


def test_what_kafkad_carries_is_no_plugin(folder: Folder) -> None:
    assert "is already part of kafkad" in folder.refuses("pluggy")


def test_package_without_an_entry_point_is_refused(folder: Folder, tmp_path: Path) -> None:
    said = folder.refuses(write_wheel(tmp_path, "other", "1.0", {"other.py": ""}))
    assert "other is not a plugin" in said
    assert not (folder.path / "packages" / "other").exists()


def test_newer_version_replaces_the_older_one(folder: Folder, tmp_path: Path) -> None:
    folder.install(plugin_wheel(tmp_path, "my-plugin"))
    folder.install(plugin_wheel(tmp_path, "my-plugin", version="2.0"))
    assert "my-plugin 2.0" in folder.listed()


def test_plugin_that_would_stop_a_broker_from_starting_leaves_the_one_before(folder: Folder, tmp_path: Path) -> None:
    folder.install(plugin_wheel(tmp_path, "my-plugin"))
    broken = plugin_wheel(tmp_path, "my-plugin", version="2.0", head="raise RuntimeError('broken')\n")
    assert "RuntimeError: broken" in folder.refuses(broken)
    assert "my-plugin 1.0" in folder.listed()
    file = tmp_path / "clash.py"
    file.write_text(PLUGIN.format(policy="my-plugin"))
    assert "'my-plugin' is registered by plugin my-plugin" in folder.refuses(file)
    assert not (folder.path / "clash.py").exists()


def test_folder_whose_build_tools_no_index_has_names_what_is_missing(folder: Folder, tmp_path: Path) -> None:
    source = source_folder(tmp_path / "source", requires="no-such-backend>=68", backend="no_such_backend")
    said = folder.refuses(source)
    assert (
        f"{source} is not installed: the build requires no-such-backend>=68, which is in no reachable package index"
        in said
    )
    assert "build a wheel on another machine" in said


def test_folder_that_can_not_be_built_says_what_the_build_said(folder: Folder, tmp_path: Path) -> None:
    source = source_folder(tmp_path / "source", requires="", backend="backend")
    (source / "backend.py").write_text("raise RuntimeError('the backend is broken')\n")
    assert "the build failed: RuntimeError: the backend is broken" in folder.refuses(source)


def source_folder(path: Path, *, requires: str, backend: str) -> Path:
    path.mkdir()
    needs = f'"{requires}"' if requires else ""
    (path / "pyproject.toml").write_text(
        f'[build-system]\nrequires = [{needs}]\nbuild-backend = "{backend}"\nbackend-path = ["."]\n'
        '[project]\nname = "my-plugin"\nversion = "1.0"\n'
    )
    return path


def test_unknown_names_are_one_line(folder: Folder) -> None:
    assert "nowhere-to-be-found" in folder.refuses("nowhere-to-be-found")
    done = folder.remove("unknown")
    assert (done.returncode, done.stderr) == (2, f"kafkad: no plugin unknown in {folder.path}\n")


def test_folder_that_may_not_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    file = tmp_path / "quick.py"
    file.write_text(PLUGIN.format(policy="quick"))
    said = Folder(tmp_path / "file" / "plugins", tmp_path).refuses(file)
    assert f"{tmp_path}/file" in said
