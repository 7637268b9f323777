"""The folder of a table: on a disk of this machine, or in an object store that pyarrow knows.

On a disk a file gets its name when it is complete and on the disk; in an object store nothing is seen before that.
Before that it is below `_tmp`, with a name that no pattern of Parquet files matches: readers may look into each folder.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs

from kafkad.export.problems import ExportFailed

if TYPE_CHECKING:
    from kafkad.export.conditional_puts import ConditionalPuts

UNFINISHED = "_tmp"
_PARQUET, _GROWING, _COMPLETE = ".parquet", ".unfinished", ".complete"
_PROBE = "_kafkad_log/.create-only"
"""An object that is there once."""


def unfinished_path(run_id: str, path: str) -> str:
    """Where a file is while the run writes it; `path` ends with .parquet."""
    return f"{UNFINISHED}/{run_id}/{path.removesuffix(_PARQUET)}{_GROWING}"


def waiting_path(run_id: str, path: str) -> str:
    """Where a complete file waits for the commit that gives it this path."""
    return f"{UNFINISHED}/{run_id}/{path.removesuffix(_PARQUET)}{_COMPLETE}"


class Waiting(NamedTuple):
    """A complete file of a run, and the path that it gets by the commit."""

    run_id: str
    path: str


def normalized(out: str) -> str:
    """`s3a://`, as Hadoop writes it, is `s3://`."""
    return f"s3://{out.removeprefix('s3a://')}" if out.startswith("s3a://") else out


def absolute(out: str) -> str:
    """As processes that have another working directory find it."""
    return out if "://" in out else str(Path(out).absolute())


class TableFolder:
    """Paths are below the folder, with slashes. Raises `ExportFailed` for a folder that can't be one."""

    def __init__(self, out: str) -> None:
        self.out = normalized(out)
        if is_address := "://" in self.out:
            _check_address(self.out)
        try:
            if is_address:
                self._files, self.root = pa.fs.FileSystem.from_uri(self.out)
            else:
                self._files, self.root = pa.fs.LocalFileSystem(), absolute(self.out)
        except (pa.ArrowInvalid, OSError) as error:
            raise ExportFailed(f"{out} can't be used: {error}") from error
        self.is_local = isinstance(self._files, pa.fs.LocalFileSystem)

    def create(self, path: str) -> Any:
        """A file to write; see `finish`."""
        full = f"{self.root}/{path}"
        if self.is_local:
            self._files.create_dir(str(PurePosixPath(full).parent), recursive=True)
        return self._files.open_output_stream(full)

    def finish(self, unfinished: str, path: str) -> None:
        """The file is complete: give it its name."""
        source, target = f"{self.root}/{unfinished}", f"{self.root}/{path}"
        if self.is_local:
            with open(source, "rb") as file:
                os.fsync(file.fileno())
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.rename(source, target)
            _sync(os.path.dirname(target))
        else:
            self._files.move(source, target)

    def place(self, waiting: Iterable[Waiting]) -> None:
        """Give files of a disk that wait for a commit their names; somebody else may have given some of them theirs."""
        folders = set()
        with self._failures("written"):
            for run_id, path in waiting:
                target = f"{self.root}/{path}"
                with suppress(FileNotFoundError):
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    os.rename(f"{self.root}/{waiting_path(run_id, path)}", target)
                    folders.add(os.path.dirname(target))
            for folder in folders:
                _sync(folder)

    def waiting(self) -> list[Waiting]:
        """The files on a disk that wait for a commit, or whose run was killed behind it."""
        found = []
        for name in self.names(UNFINISHED, recursive=True) if self.is_local else ():
            if name.endswith(_COMPLETE):
                _, run_id, path = name.split("/", 2)
                found.append(Waiting(run_id, f"{path.removesuffix(_COMPLETE)}{_PARQUET}"))
        return found

    def remove(self, path: str) -> None:
        """Remove the file, if it is there."""
        try:
            with self._failures("written"):
                self._files.delete_file(f"{self.root}/{path}")
        except FileNotFoundError:
            return

    def remove_unfinished(self, run_id: str) -> None:
        """Remove the folder of unfinished files of a run that has ended."""
        unfinished = f"{self.root}/{UNFINISHED}/{run_id}"
        with self._failures("written"):
            if self._files.get_file_info(unfinished).type == pa.fs.FileType.Directory:
                self._files.delete_dir(unfinished)

    def read(self, path: str) -> bytes:
        """Raises FileNotFoundError."""
        with self._failures(), self._files.open_input_stream(f"{self.root}/{path}") as file:
            content: bytes = file.read()
        return content

    def open(self, path: str) -> Any:
        """To read parts of it. Raises FileNotFoundError."""
        with self._failures():
            return self._files.open_input_file(f"{self.root}/{path}")

    def names(self, path: str = "", *, recursive: bool = False) -> list[str]:
        """The files below `path`, sorted, as paths below the table's folder; none where there is no such folder."""
        return self._list(path, pa.fs.FileType.File, recursive=recursive)

    def folders(self, path: str = "") -> list[str]:
        """Those in the table's folder, or in one of these, sorted."""
        return self._list(path, pa.fs.FileType.Directory, recursive=False)

    def runs(self) -> set[str]:
        """Those that are under way, or were killed, on a disk."""
        return {path.removeprefix(f"{UNFINISHED}/") for path in self.folders(UNFINISHED)}

    def _list(self, path: str, kind: Any, *, recursive: bool) -> list[str]:
        selector = pa.fs.FileSelector(f"{self.root}/{path}".rstrip("/"), allow_not_found=True, recursive=recursive)
        with self._failures():
            found = self._files.get_file_info(selector)
        paths = [each.path.removeprefix(self.root).strip("/") for each in found if each.type == kind]
        return sorted(paths)

    def size(self, path: str) -> int | None:
        """In bytes; None where there is no such file."""
        with self._failures():
            found: int | None = self._files.get_file_info(f"{self.root}/{path}").size
        return found

    def age_s(self, path: str) -> float:
        """How long ago the file was written."""
        with self._failures():
            info = self._files.get_file_info(f"{self.root}/{path}")
        return 0.0 if info.mtime_ns is None else time.time() - info.mtime_ns / 1e9

    def publish(self, path: str, content: bytes) -> bool:
        """Create the file with this content, on the disk, or return False: there is one already. On a disk or in S3.

        Raises `ExportFailed`.
        """
        if not self.is_local:
            return self._conditional_puts().create(path, content)
        try:
            return self._publish(Path(self.root, path), content)
        except OSError as error:
            raise ExportFailed(f"{self.out} can't be written: {error}") from error

    def _publish(self, target: Path, content: bytes) -> bool:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}")
        try:
            with open(scratch, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.link(scratch, target)
        except FileExistsError:
            # Perhaps our own, of which the answer of a server of files got lost: then it was asked once more.
            if not os.path.samefile(scratch, target):
                return False
        finally:
            scratch.unlink(missing_ok=True)
        _sync(str(target.parent))
        return True

    def check_store(self) -> None:
        """Find out whether a file can be created here unless there is one: on a disk or in S3. Raises `StoreUnfit`."""
        if not self.is_local:
            self._conditional_puts().check_store(_PROBE)

    def _conditional_puts(self) -> "ConditionalPuts":
        # Only who has a table in an object store needs obstore.
        from kafkad.export.conditional_puts import ConditionalPuts  # noqa: PLC0415

        return ConditionalPuts(self.out, getattr(self._files, "region", ""))

    @contextmanager
    def _failures(self, done: str = "read") -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ExportFailed(f"{self.out} can't be {done}: {error}") from error


def _check_address(out: str) -> None:
    """Raises `ExportFailed`, which does not say what it was: that may be a password."""
    try:
        parts = urlsplit(out)
    except ValueError as error:
        raise ExportFailed(f"expected an address as s3://BUCKET/PATH: {error}") from None
    if any(each in out for each in "%?#") or (parts.scheme == "s3" and (not parts.netloc or "@" in parts.netloc)):
        raise ExportFailed("expected an address as s3://BUCKET/PATH, without %, ? and #: variables say all else")


def _sync(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
