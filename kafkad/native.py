"""Selects compiled or interpreted code.

Python prefers a compiled module to the .py beside it. In a checkout a .py may have changed since `make native`, which
records the state of all compiled files: if any file differs from the record, all modules run interpreted. Installations
have no record.
"""

import os
import sys
from importlib import import_module
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path

FOLDER = Path(__file__).parent
RECORD = FOLDER / "compiled.json"
"""Written by `make native`: the modification time and size of each module."""
PLAIN = "KAFKAD_INTERPRETED"
"""Environment variable for tests: `all`, or packages that run interpreted (`kafkad.processes kafkad.adapters`)."""
_WITNESS = "kafkad.core.log.partition_log"


def choose() -> None:
    """Called before any other module of kafkad is imported."""
    interpreted_packages = os.environ.get(PLAIN, "").split()
    if interpreted_packages == ["all"]:
        _interpret([FOLDER])
        return
    # json is imported only if there is a record, because all importers of kafkad pay for the imports of this module.
    if RECORD.exists() and is_stale(import_module("json").loads(RECORD.read_text())):
        print("kafkad: changed since `make native`, so nothing compiled is used", file=sys.stderr)
        _interpret([FOLDER])
        return
    if interpreted_packages:
        _interpret([FOLDER.joinpath(*package.split(".")[1:]) for package in interpreted_packages])


def is_stale(record: dict[str, list[int]], checkout: Path = FOLDER.parent) -> bool:
    """Whether a module has been changed, removed or renamed since `make native`."""
    return any(state_of(checkout / name) != state for name, state in record.items())


def state_of(path: Path) -> list[int]:
    """The file's modification time and size; empty for a missing file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return []
    return [status.st_mtime_ns, status.st_size]


def mode() -> str:
    """`compiled` or `interpreted`."""
    spec = import_module("importlib.util").find_spec(_WITNESS)
    is_source = spec is not None and spec.origin is not None and spec.origin.endswith(".py")
    return "interpreted" if is_source else "compiled"


def _interpret(folders: list[Path]) -> None:
    """Make Python import only .py files below these folders."""
    inside = tuple(f"{folder}{os.sep}" for folder in folders)

    def find_no_library(path: str) -> FileFinder:
        if not os.path.isdir(path) or not (path + os.sep).startswith(inside):
            raise ImportError(path)
        return FileFinder(path, (SourceFileLoader, SOURCE_SUFFIXES))

    sys.path_hooks.insert(0, find_no_library)
    for path in list(sys.path_importer_cache):
        if path.startswith(str(FOLDER)):
            del sys.path_importer_cache[path]
