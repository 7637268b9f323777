"""The build backend for pip and build: a compiled wheel with a C compiler, otherwise a pure one. See pyproject.toml.

An editable installation and the source distribution never compile. `KAFKAD_PURE=1` builds a pure wheel for any machine.
"""

import os
import shutil
import sys
import sysconfig
from configparser import ConfigParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
]
REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def missing_for_compilation() -> str | None:
    """The reason why nothing can be compiled; None if compilation is possible."""
    if os.environ.get("KAFKAD_PURE") == "1":
        return "KAFKAD_PURE=1 is set"
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"there is no {compiler}"
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return "there is no Python.h"
    return None


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """mypyc for a compiled wheel, and the packages that kafkad imports: mypyc reads their types."""
    found: list[str] = build_meta.get_requires_for_build_wheel(config_settings)
    if missing_for_compilation():
        return found
    setup = ConfigParser()
    setup.read("setup.cfg")
    imported = setup["options"]["install_requires"].strip().splitlines()
    return [*found, *REQUIREMENTS.read_text().split(), *imported]


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build a wheel; the name of a compiled one is for this Python and architecture only."""
    missing = missing_for_compilation()
    if missing:
        print(f"kafkad: nothing is compiled: {missing}", file=sys.stderr)
    os.environ["KAFKAD_COMPILE"] = "0" if missing else "1"
    try:
        built: str = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    except Exception:
        if not missing:
            print("kafkad: the compilation failed; KAFKAD_PURE=1 builds without compilation", file=sys.stderr)
        raise
    finally:
        del os.environ["KAFKAD_COMPILE"]
    return built


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build an editable wheel that also adds `spark` to `sys.path`.

    Spark finds a data source by its module's name in the folders of `sys.path`; the finder that setuptools installs for
    two folders of packages adds none.
    """
    # A build environment without editable installations may lack the package.
    from wheel.wheelfile import WheelFile  # noqa: PLC0415

    built: str = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    path = Path(wheel_directory, built)
    with TemporaryDirectory() as folder:
        with WheelFile(path) as wheel:
            wheel.extractall(folder)
        Path(folder, "kafkad_spark.pth").write_text(f"{Path('spark').resolve()}\n")
        with WheelFile(path, "w") as wheel:
            wheel.write_files(folder)
    return built
