"""What people install: the built wheel in an empty virtual environment, away from the checkout.

Where compiled code is tested it is the compiled one, otherwise the one for any machine.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
IS_COMPILED = os.environ.get("KAFKAD_TESTED") == "compiled"
_INSTALL = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]


def _run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        # What the checkout puts on the path must not stand in for what is installed.
        env={name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KAFKAD_"))}
        # What was compiled for the tests need not be compiled again.
        | {"KAFKAD_PURE": str(int(not IS_COMPILED)), "KAFKAD_KEPT": str(CHECKOUT / "build/native/kept")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that the checkout stays as it is."""
    source = tmp_path_factory.mktemp("source")
    for name in _run("git", "ls-files", "-co", "--exclude-standard", cwd=CHECKOUT).splitlines():
        if name.startswith(("kafkad/", "spark/", "packaging/native/")) or "/" not in name:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, source / name)
    built = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", built, source, cwd=source)
    (found,) = built.glob("kafkad-*-cp*-linux_*.whl" if IS_COMPILED else "kafkad-*-py3-none-any.whl")
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment that has the wheel, pytest and the client of the README, nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    _run(sys.executable, "-m", "venv", folder, cwd=folder)
    _run(folder / "bin" / "python", *_INSTALL, wheel, "pytest", "confluent-kafka", cwd=folder)
    return folder / "bin"


def test_wheel_has_every_module_of_the_tree(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    there = {str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "kafkad").rglob("*.py")}
    # Not the scripts for spark-submit.
    there |= {str(path.relative_to(CHECKOUT / "spark")) for path in (CHECKOUT / "spark").rglob("*/*.py")}
    assert there - packed == set()
    assert {name.partition("/")[0] for name in packed if "__mypyc" not in name} == {
        *("kafkad", "kafkad_lakehouse", "pyspark_kafkad")
    }
    assert "kafkad/py.typed" in packed
    assert any(name.endswith(".so") for name in packed) == IS_COMPILED
    assert "kafkad/compiled.json" not in packed


def test_installed_command_says_its_version(environment: Path, tmp_path: Path) -> None:
    mode = "compiled" if IS_COMPILED else "interpreted"
    said = _run(environment / "kafkad", "--version", cwd=tmp_path)
    assert re.fullmatch(rf"kafkad, version \S+ \({mode}\)\n", said)


def test_command_of_the_package_beside_the_broker_is_found(environment: Path, tmp_path: Path) -> None:
    assert "  export " in _run(environment / "kafkad", "--help", cwd=tmp_path)
    for command in (["kafkad", "export"], ["kafkad-export"]):
        printed = _run(environment / command[0], *command[1:], "--help", cwd=tmp_path)
        assert printed.startswith(f"Usage: {' '.join(command)} [OPTIONS] COMMAND") and "  maintain " in printed


def test_test_of_the_readme_passes_as_printed(environment: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (CHECKOUT / "README.md").read_text(), re.DOTALL)
    (example,) = (block for block in blocks if "def test_" in block)
    (tmp_path / "test_example.py").write_text(example)
    assert "1 passed" in _run(environment / "python", "-m", "pytest", cwd=tmp_path)


def test_options_of_the_plugin_are_in_pytests_help(environment: Path, tmp_path: Path) -> None:
    printed = _run(environment / "python", "-m", "pytest", "--help", cwd=tmp_path)
    for option in ("--kafkad-override", "kafkad_overrides", "kafkad_scope"):
        assert option in printed
