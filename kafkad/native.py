"""Does compiled code run, or the same code interpreted?

Python itself prefers a compiled module to the .py beside it. In a checkout the .py may have been changed since
`make native`: its record of what it compiled is compared, and when anything differs all of kafkad runs interpreted.
What is installed has no such record.
"""

import os
import sys
from importlib import import_module
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path

FOLDER = Path(__file__).parent
RECORD = FOLDER / "compiled.json"
"""Written by `make native`: for each module its time of change and size."""
PLAIN = "KAFKAD_INTERPRETED"
"""Set to `all` or to packages (`kafkad.processes kafkad.adapters`): these run interpreted, for tests."""
_WITNESS = "kafkad.core.log.partition_log"


def choose() -> None:
    """Before any module of ours is imported."""
    wanted = os.environ.get(PLAIN, "").split()
    if wanted == ["all"]:
        _interpret([FOLDER])
        return
    # Whatever imports kafkad pays for what is imported above: json only where there is a record.
    if RECORD.exists() and is_stale(import_module("json").loads(RECORD.read_text())):
        print("kafkad: changed since `make native`, so nothing compiled is used", file=sys.stderr)
        _interpret([FOLDER])
        return
    if wanted:
        _interpret([FOLDER.joinpath(*package.split(".")[1:]) for package in wanted])


def is_stale(record: dict[str, list[int]], checkout: Path = FOLDER.parent) -> bool:
    """Whether a module has been changed, removed or renamed since."""
    return any(state_of(checkout / name) != state for name, state in record.items())


def state_of(path: Path) -> list[int]:
    """What differs once it has been changed."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return []
    return [found.st_mtime_ns, found.st_size]


def mode() -> str:
    """`compiled` or `interpreted`."""
    spec = import_module("importlib.util").find_spec(_WITNESS)
    is_source = spec is not None and spec.origin is not None and spec.origin.endswith(".py")
    return "interpreted" if is_source else "compiled"


def _interpret(folders: list[Path]) -> None:
    """Below these folders, Python finds .py only."""
    inside = tuple(f"{folder}{os.sep}" for folder in folders)

    def find_no_library(path: str) -> FileFinder:
        if not os.path.isdir(path) or not (path + os.sep).startswith(inside):
            raise ImportError(path)
        return FileFinder(path, (SourceFileLoader, SOURCE_SUFFIXES))

    sys.path_hooks.insert(0, find_no_library)
    for path in list(sys.path_importer_cache):
        if path.startswith(str(FOLDER)):
            del sys.path_importer_cache[path]
