"""Finds plugins: the built-in ones, entry points of installed packages, the files of a folder.

Nothing is imported until `load`, which runs the plugin's code.
"""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from kafkad import __version__
from kafkad.plugins import BUILT_IN

ENTRY_POINT_GROUP = "kafkad"
PACKAGES = "packages"
"""A subfolder of the plugins folder, with a folder for each package of `kafkad plugins install`."""


class PluginFailed(Exception):
    """A plugin can't be used; the message has its name, its source and the cause."""

    def __init__(self, name: str, source: str, cause: str) -> None:
        super().__init__(f"plugin {name} ({source}): {cause}")
        self.name = name
        self.source = source
        self.cause = cause


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPlugin:
    """A plugin that was found but not imported yet."""

    name: str
    version: str
    source: str
    load: Callable[[], object]


def built_in() -> Iterator[FoundPlugin]:
    """The built-in plugins, in order."""
    for module in BUILT_IN:
        name = module.rpartition(".")[2]
        yield FoundPlugin(name=name, version=__version__, source="built in", load=_importer(module))


def _importer(module: str) -> Callable[[], object]:
    return lambda: import_module(module)


def installed(directory: str) -> Iterator[FoundPlugin]:
    """The entry points of installed packages, including packages in the plugins folder."""
    for package in sorted(Path(directory, PACKAGES).glob("[!.]*")) if os.path.isdir(directory) else ():
        if str(package) not in sys.path:
            # At the end: packages that are installed with kafkad have precedence.
            sys.path.append(str(package))
    for entry_point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        yield FoundPlugin(
            name=entry_point.name,
            version=entry_point.dist.version if entry_point.dist is not None else "",
            source=_package(entry_point),
            load=entry_point.load,
        )


def _package(entry_point: EntryPoint) -> str:
    package = f"package {entry_point.dist.name}" if entry_point.dist is not None else "package"
    return f"{package}, {entry_point.value}"


def in_folder(directory: str) -> Iterator[FoundPlugin]:
    """The .py files and packages of the folder, by name. Raises PluginFailed if `directory` is not a folder."""
    if not directory:
        return
    folder = Path(directory)
    if not os.path.isdir(folder):
        raise PluginFailed("folder", directory, "kafkad.plugins.dir is not a folder")
    for path in sorted(folder.iterdir()):
        file = path / "__init__.py" if path.is_dir() else path
        if path.name.startswith(("_", ".")) or file.suffix != ".py" or not file.is_file():
            continue
        yield FoundPlugin(name=path.stem, version="", source=str(path), load=_file_importer(path.stem, file))


def _file_importer(name: str, file: Path) -> Callable[[], ModuleType]:
    def load_file() -> ModuleType:
        # A unique name, so that a plugin json.py does not hide the module json.
        module_name = f"kafkad_plugin_{name}"
        spec = spec_from_file_location(module_name, file)
        assert spec is not None and spec.loader is not None, f"{file} ends in .py"
        module = module_from_spec(spec)
        sys.modules[module_name] = module
        spec.loader.exec_module(module)
        return module

    return load_file
