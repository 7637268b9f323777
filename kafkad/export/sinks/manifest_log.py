"""The log of a folder of Parquet files: manifest N of `_kafkad_log` is commit N, and the first to create it wins.

Checkpoint N, in a folder of its own, has the files of the table as manifests 0 to N make them. It is no commit: anybody
may write it, whenever. Behind it manifests before N are needed no more, and may be removed; N and later ones never are.

Who is so slow that the manifest after the one it knows was made, summed up and removed meanwhile can create it once
more. Nobody takes that for a commit, and `publish` notices, as a checkpoint is there before a manifest is removed.

Files of other names in these folders are somebody else's.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from kafkad.export.places import TableFolder
from kafkad.export.problems import ExportFailed, after_commit
from kafkad.export.request import KEEP_LATEST
from kafkad.export.writing import WrittenFile

LOG = "_kafkad_log"
CHECKPOINTS = f"{LOG}/checkpoints"
FORMAT, FORMAT_OF_MERGES = 1, 2
"""Who does not know the second one would read files that were replaced, and has to stop there."""
_NONE = -1
_NAME = re.compile(r"[0-9]{20}\.json")
_MOST_BEHIND = 1_000
"""With so many manifests behind it a checkpoint is followed by another one at once."""

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
        with after_commit():
            if version > self._summed_up():
                return True
            # It has been in the table by now, or was there before and is removed: then this one is none.
            paths, table = set(new), self.table()
        known = set() if table is None else {*(each.path for each in table.files), *table.replaced_ms}
        return bool(paths) and paths <= known

    def sum_up(self, older_than_s: float) -> None:
        """Write a checkpoint of all commits, unless there is a younger one. Files that were replaced before that are
        left out when they are gone.
        """
        table = self.table() if self._has_to_be_summed_up(older_than_s) else None
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
        # Another one that is there says the same, but for files that are gone.
        self._folder.publish(_checkpoint(table.last["commit"]), json.dumps(content).encode())

    def remove_summed_up(self, older_than_s: float) -> int:
        """Remove manifests, and checkpoints, before the newest checkpoint that was there so long ago: readers may be in
        the midst of them. Returns how many manifests.
        """
        old = [each for each in self._checkpoints() if self._folder.age_s(_checkpoint(each)) >= older_than_s]
        if not old:
            return 0
        manifests = [each for each in self._manifests() if each < old[-1]]
        for name in (*map(_manifest, manifests), *map(_checkpoint, old[:-1])):
            self._folder.remove(name)
        return len(manifests)

    def _has_to_be_summed_up(self, older_than_s: float) -> bool:
        summed_up = self._summed_up()
        behind = max(self._manifests(), default=_NONE) - summed_up
        if summed_up == _NONE or behind == 0:
            return behind > 0
        return behind >= _MOST_BEHIND or self._folder.age_s(_checkpoint(summed_up)) >= older_than_s

    def _there(self, paths: Iterable[str]) -> set[str]:
        """What is where these files are, or were: one listing for the table's folder, and for each date."""
        places = {path.partition("/")[0] if "/" in path else "" for path in paths}
        return {name for place in places for name in self._folder.names(place, recursive=place != "")}

    def _last(self, summed_up: int) -> Any | None:
        version = max(self._manifests(), default=_NONE)
        if version < summed_up:
            raise _Gone(_manifest(summed_up))
        return None if version == _NONE else self._read(_manifest(version))

    def _table(self, summed_up: int) -> Table | None:
        files: list[WrittenFile] = []
        replaced_ms: dict[str, int] = {}
        last = None
        if summed_up != _NONE:
            read = self._read(_checkpoint(summed_up))
            files = [WrittenFile(**each) for each in read["files"]]
            replaced_ms = dict(read["replaced_ms"])
        first = summed_up + 1
        for expected, version in enumerate((each for each in self._manifests() if each >= first), first):
            if version != expected:
                raise _Gone(_manifest(expected))
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
        if last is None and summed_up != _NONE:
            last = self._read(_manifest(summed_up))
        return None if last is None else Table(last, files, replaced_ms)

    def _settled(self, look: Callable[[int], Found]) -> Found:
        """What is found with the newest checkpoint, if it still is the newest: else manifests behind it may have been
        removed, and created once more, and it is looked for anew.
        """
        missed = ""
        while True:
            # In this order: no checkpoint is there without its manifest.
            summed_up = self._summed_up()
            try:
                found = look(summed_up)
            except _Gone as gone:
                if str(gone) == missed:
                    raise ExportFailed(f"{self._folder.out}/{gone} is missing: a commit of the table") from gone
                missed = str(gone)
            else:
                if self._summed_up() == summed_up:
                    return found

    def _summed_up(self) -> int:
        """The newest commit that a checkpoint has."""
        return max(self._checkpoints(), default=_NONE)

    def _manifests(self) -> list[int]:
        return self._versions(LOG)

    def _checkpoints(self) -> list[int]:
        return self._versions(CHECKPOINTS)

    def _versions(self, folder: str) -> list[int]:
        names = [name.removeprefix(f"{folder}/") for name in self._folder.names(folder)]
        return [int(name.removesuffix(".json")) for name in names if _NAME.fullmatch(name)]

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


def ago_ms(seconds: float) -> float:
    """In milliseconds since 1970."""
    return (time.time() - seconds) * 1_000
