"""The log of a folder of Parquet files: manifest N in `_kafkad_log` is commit N, and the first writer creates it.

Checkpoint N, in a folder of its own, has the files of the table after manifests 0 to N. A checkpoint is not a commit:
any process may write it at any time. Manifests before N may be removed when checkpoint N exists; manifest N and later
ones are never removed.

A slow writer may create a manifest that was already created, checkpointed and removed. Readers ignore such a manifest,
and `publish` detects it, because a checkpoint exists before a manifest is removed.

Other files in these folders are ignored.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from kafkad_lakehouse.export.problems import ExportFailed, after_commit
from kafkad_lakehouse.export.request import KEEP_LATEST
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.export.writing import WrittenFile

LOG = "_kafkad_log"
CHECKPOINTS = f"{LOG}/checkpoints"
FORMAT, FORMAT_OF_MERGES = 1, 2
"""An older kafkad must reject the second format: it would read replaced files."""
_NONE = -1
_NAME = re.compile(r"[0-9]{20}\.json")
_MAX_BEHIND = 1_000
"""With this number of manifests after the last checkpoint the next one is written at once."""

Result = TypeVar("Result")


class _NotFound(Exception):
    """A manifest or checkpoint of this name does not exist."""


class Table(NamedTuple):
    """The newest manifest, the files of the table, and the times of replacement of other files, in ms since 1970."""

    last: Any
    files: list[WrittenFile]
    replaced_ms: Mapping[str, int]


class ManifestLog:
    """Raises `ExportFailed`."""

    def __init__(self, folder: TableFolder) -> None:
        self._folder = folder

    def last(self) -> Any | None:
        """The newest manifest; None if there is no table."""
        return self._read_stable(self._last)

    def manifest(self, version: int) -> Any | None:
        """The manifest; None if it was removed."""
        try:
            return self._read(_manifest(version))
        except _NotFound:
            return None

    def table(self) -> Table | None:
        """The table; None if it does not exist."""
        return self._read_stable(self._table)

    def publish(self, version: int, content: Mapping[str, Any], new: Iterable[str]) -> bool:
        """Create commit `version`, which adds the files `new`. Return False if another writer has created it."""
        if not self._folder.publish(_manifest(version), json.dumps(content).encode()):
            return False
        with after_commit():
            if version > self._checkpointed():
                return True
            # A checkpoint covers this version: it counts only if its files are in the table.
            paths, table = set(new), self.table()
        known = set() if table is None else {*(each.path for each in table.files), *table.replaced_ms}
        return bool(paths) and paths <= known

    def write_checkpoint(self, older_than_s: float) -> None:
        """Write a checkpoint of all commits, unless one is younger than `older_than_s`. Replaced files are omitted when
        they are older and deleted.
        """
        table = self.table() if self._needs_checkpoint(older_than_s) else None
        if table is None:
            return
        since_ms = ago_ms(older_than_s)
        there = self._there([path for path, time_ms in table.replaced_ms.items() if time_ms <= since_ms])
        replaced = sorted(table.replaced_ms.items())
        content = {
            "format": FORMAT,
            "commit": table.last["commit"],
            "files": [each._asdict() for each in table.files],
            "replaced_ms": {path: time_ms for path, time_ms in replaced if time_ms > since_ms or path in there},
        }
        # An existing checkpoint has the same content, except for deleted files.
        self._folder.publish(_checkpoint(table.last["commit"]), json.dumps(content).encode())

    def remove_checkpointed(self, older_than_s: float) -> int:
        """Remove manifests and checkpoints before the newest checkpoint that is older than `older_than_s`, because a
        reader may be using later ones. Returns the number of removed manifests.
        """
        old = [each for each in self._checkpoints() if self._folder.age_s(_checkpoint(each)) >= older_than_s]
        if not old:
            return 0
        manifests = [each for each in self._manifests() if each < old[-1]]
        for name in (*map(_manifest, manifests), *map(_checkpoint, old[:-1])):
            self._folder.remove(name)
        return len(manifests)

    def _needs_checkpoint(self, older_than_s: float) -> bool:
        checkpointed = self._checkpointed()
        behind = max(self._manifests(), default=_NONE) - checkpointed
        if checkpointed == _NONE or behind == 0:
            return behind > 0
        return behind >= _MAX_BEHIND or self._folder.age_s(_checkpoint(checkpointed)) >= older_than_s

    def _there(self, paths: Iterable[str]) -> set[str]:
        """The existing files in the folders of `paths`: one listing of the table's folder, and of each date."""
        places = {path.partition("/")[0] if "/" in path else "" for path in paths}
        return {name for place in places for name in self._folder.names(place, recursive=place != "")}

    def _last(self, checkpointed: int) -> Any | None:
        version = max(self._manifests(), default=_NONE)
        if version < checkpointed:
            raise _NotFound(_manifest(checkpointed))
        return None if version == _NONE else self._read(_manifest(version))

    def _table(self, checkpointed: int) -> Table | None:
        files: list[WrittenFile] = []
        replaced_ms: dict[str, int] = {}
        last = None
        if checkpointed != _NONE:
            read = self._read(_checkpoint(checkpointed))
            files = [WrittenFile(**each) for each in read["files"]]
            replaced_ms = dict(read["replaced_ms"])
        first = checkpointed + 1
        for expected, version in enumerate((each for each in self._manifests() if each >= first), first):
            if version != expected:
                raise _NotFound(_manifest(expected))
            last = self._read(_manifest(version))
            new = [WrittenFile(**each) for each in last["files"]]
            if last.get("keeps") == KEEP_LATEST:
                replaced = {each.path for each in files} - {each.path for each in new}
                files = new
            else:
                replaced = set(last.get("replaced", ()))
                if replaced:
                    files = [each for each in files if each.path not in replaced]
                files += new
            replaced_ms |= dict.fromkeys(replaced, last["time_ms"])
        if last is None and checkpointed != _NONE:
            last = self._read(_manifest(checkpointed))
        return None if last is None else Table(last, files, replaced_ms)

    def _read_stable(self, read: Callable[[int], Result]) -> Result:
        """Call `read` with the newest checkpoint; repeat if there is a newer checkpoint afterwards, because manifests
        may then have been removed, or created again, during the read.
        """
        missed = ""
        while True:
            # In this order: a checkpoint never exists without its manifest.
            checkpointed = self._checkpointed()
            try:
                found = read(checkpointed)
            except _NotFound as missing:
                if str(missing) == missed:
                    raise ExportFailed(f"{self._folder.out}/{missing}, a commit of the table, is missing") from missing
                missed = str(missing)
            else:
                if self._checkpointed() == checkpointed:
                    return found

    def _checkpointed(self) -> int:
        """The version of the newest checkpoint."""
        return max(self._checkpoints(), default=_NONE)

    def _manifests(self) -> list[int]:
        return self._versions(LOG)

    def _checkpoints(self) -> list[int]:
        return self._versions(CHECKPOINTS)

    def _versions(self, folder: str) -> list[int]:
        names = [name.removeprefix(f"{folder}/") for name in self._folder.names(folder)]
        return [int(name.removesuffix(".json")) for name in names if _NAME.fullmatch(name)]

    def _read(self, name: str) -> Any:
        """Raises `_NotFound`."""
        try:
            content = json.loads(self._folder.read(name))
        except FileNotFoundError as error:
            raise _NotFound(name) from error
        except ValueError as error:
            raise ExportFailed(f"{self._folder.out}/{name} is damaged: {error}") from error
        if not isinstance(content, dict):
            raise ExportFailed(f"{self._folder.out}/{name} is damaged: it is not a JSON object")
        if content.get("format") not in (FORMAT, FORMAT_OF_MERGES):
            raise ExportFailed(f"{self._folder.out}/{name} has the format of a newer kafkad")
        return content


def _manifest(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


def _checkpoint(version: int) -> str:
    return f"{CHECKPOINTS}/{version:020d}.json"


def ago_ms(seconds: float) -> float:
    """The time `seconds` ago, in milliseconds since 1970."""
    return (time.time() - seconds) * 1_000
