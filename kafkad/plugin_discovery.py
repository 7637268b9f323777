"""Where do plugins come from? Our own modules, installed packages, the files of a folder.

Finding is cheap and imports nothing; `load` runs the plugin's code.
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
"""Below the plugins folder: a folder for each package that `kafkad plugins install` has put there."""


class PluginFailed(Exception):
    """A plugin can't be used: which one, where it is, and why."""

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
    """The defaults, in their order."""
    for module in BUILT_IN:
        name = module.rpartition(".")[2]
        yield FoundPlugin(name=name, version=__version__, source="built in", load=_importer(module))


def _importer(module: str) -> Callable[[], object]:
    return lambda: import_module(module)


def installed(directory: str) -> Iterator[FoundPlugin]:
    """What installed packages declare as entry points, those in the plugins folder among them."""
    for package in sorted(Path(directory, PACKAGES).glob("[!.]*")) if os.path.isdir(directory) else ():
        if str(package) not in sys.path:
            # At the end: what kafkad itself was installed with is always found first.
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
    """Every .py file and package of the folder, by name; raises PluginFailed when it isn't one."""
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
        # A name of its own, so that a plugin called json.py hides nothing.
        module_name = f"kafkad_plugin_{name}"
        spec = spec_from_file_location(module_name, file)
        assert spec is not None and spec.loader is not None, f"{file} ends in .py"
        module = module_from_spec(spec)
        sys.modules[module_name] = module
        spec.loader.exec_module(module)
        return module

    return load_file
