"""The log of a folder of Parquet files: manifest N of `_kafkad_log` is commit N, and the first to create it wins.

Checkpoint N, in a folder of its own, has the files of the table as manifests 0 to N make them. It is no commit: anybody
may write it, whenever. Behind it manifests before N are needed no more, and may be removed; N and later ones never are.

Who is so slow that the manifest after the one it knows was made, summed up and removed meanwhile can create it once
more. Nobody reads such a one, and `publish` notices, as a checkpoint is there before a manifest is removed.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from kafkad.export.places import TableFolder
from kafkad.export.problems import ExportFailed
from kafkad.export.wanted import KEEP_LATEST
from kafkad.export.writing import WrittenFile

LOG = "_kafkad_log"
CHECKPOINTS = f"{LOG}/checkpoints"
FORMAT, FORMAT_OF_MERGES = 1, 2
"""Who does not know the second one would read files that were replaced, and has to stop there."""
_NONE = -1

Found = TypeVar("Found")


class _Gone(Exception):
    """A manifest or checkpoint of this name is not there."""


class Table(NamedTuple):
    """The newest manifest, the files of the table, and when others were replaced, in milliseconds since 1970."""

    last: Any
    files: list[WrittenFile]
    replaced_ms: Mapping[str, int]


class ManifestLog:
    """Raises `ExportFailed`."""

    def __init__(self, folder: TableFolder) -> None:
        self._folder = folder

    def last(self) -> Any | None:
        """The newest manifest; None: there is no table."""
        return self._settled(self._last)

    def manifest(self, version: int) -> Any | None:
        """None: it is not there any more."""
        try:
            return self._read(_manifest(version))
        except _Gone:
            return None

    def table(self) -> Table | None:
        """None: there is none."""
        return self._settled(self._table)

    def publish(self, version: int, content: Mapping[str, Any], new: Iterable[str]) -> bool:
        """Make it commit `version`, with which these files come, or return False: somebody else has made it."""
        if not self._folder.publish(_manifest(version), json.dumps(content).encode()):
            return False
        if version > self._summed_up():
            return True
        # It has been in the table by now, or was there before and is removed: then this one is none.
        paths, table = set(new), self.table()
        known = set() if table is None else {*(each.path for each in table.files), *table.replaced_ms}
        return bool(paths) and paths <= known

    def sum_up(self, since_ms: float) -> None:
        """Write a checkpoint of all commits. Files that were replaced before that are left out when they are gone."""
        table = self.table()
        if table is None or table.last["commit"] <= self._summed_up():
            return
        replaced = sorted(table.replaced_ms.items())
        content = {
            "format": FORMAT,
            "commit": table.last["commit"],
            "files": [each._asdict() for each in table.files],
            "replaced_ms": {
                path: time for path, time in replaced if time > since_ms or self._folder.size(path) is not None
            },
        }
        # Another one that is there says the same, but for files that are gone.
        self._folder.publish(_checkpoint(table.last["commit"]), json.dumps(content).encode())

    def remove_summed_up(self, older_than_s: float) -> int:
        """Remove manifests, and checkpoints, before the newest checkpoint that was there so long ago: readers may be in
        the midst of them. Returns how many manifests.
        """
        old = [name for name in self._checkpoints() if self._folder.age_s(name) >= older_than_s]
        if not old:
            return 0
        first = _version(old[-1])
        manifests = [name for name in self._manifests() if _version(name) < first]
        for name in (*manifests, *old[:-1]):
            self._folder.remove(name)
        return len(manifests)

    def _last(self) -> Any | None:
        manifests = self._manifests()
        return self._read(manifests[-1]) if manifests else None

    def _table(self) -> Table | None:
        # In this order: no checkpoint is there without its manifest.
        checkpoints, manifests = self._checkpoints(), self._manifests()
        files: list[WrittenFile] = []
        replaced_ms: dict[str, int] = {}
        first, last = 0, None
        if checkpoints:
            read = self._read(checkpoints[-1])
            files = [WrittenFile(**each) for each in read["files"]]
            replaced_ms = dict(read["replaced_ms"])
            first = _version(checkpoints[-1]) + 1
        names = [name for name in manifests if _version(name) >= first]
        for version, name in enumerate(names, first):
            if name != _manifest(version):
                raise _Gone(_manifest(version))
            last = self._read(name)
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
        if last is None and first:
            last = self._read(_manifest(first - 1))
        return None if last is None else Table(last, files, replaced_ms)

    def _settled(self, look: Callable[[], Found]) -> Found:
        """What is found while nobody removes what was listed: else it is listed anew, with the checkpoint of it."""
        missed = ""
        while True:
            try:
                return look()
            except _Gone as gone:
                if str(gone) == missed:
                    raise ExportFailed(f"{self._folder.out}/{gone} is missing: a commit of the table") from gone
                missed = str(gone)

    def _summed_up(self) -> int:
        """The newest commit that a checkpoint has."""
        return max(map(_version, self._checkpoints()), default=_NONE)

    def _manifests(self) -> list[str]:
        names = self._folder.names(LOG)
        return [name for name in names if name.endswith(".json") and not name.startswith(f"{LOG}/.")]

    def _checkpoints(self) -> list[str]:
        names = self._folder.names(CHECKPOINTS)
        return [name for name in names if name.endswith(".json") and not name.startswith(f"{CHECKPOINTS}/.")]

    def _read(self, name: str) -> Any:
        """Raises `_Gone`."""
        try:
            content = json.loads(self._folder.read(name))
        except FileNotFoundError as error:
            raise _Gone(name) from error
        except ValueError as error:
            raise ExportFailed(f"{self._folder.out}/{name} is damaged: {error}") from error
        if content.get("format") not in (FORMAT, FORMAT_OF_MERGES):
            raise ExportFailed(f"{self._folder.out}/{name} is of a newer kafkad")
        return content


def _manifest(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


def _checkpoint(version: int) -> str:
    return f"{CHECKPOINTS}/{version:020d}.json"


def _version(name: str) -> int:
    digits = name.rpartition("/")[2].removesuffix(".json")
    return int(digits) if digits.isdecimal() else _NONE
