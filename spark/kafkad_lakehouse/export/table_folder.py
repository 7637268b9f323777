"""The folder of a table: on a disk of this machine, or in an object store that pyarrow supports.

On a disk a file gets its name when it is complete and synced. Before, the file is below `_tmp` and its name does not
end with .parquet, because readers may list each folder. In an object store an incomplete object is invisible.
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

from kafkad_lakehouse.export.problems import ExportFailed

if TYPE_CHECKING:
    from kafkad_lakehouse.export.conditional_puts import ConditionalPuts

UNFINISHED = "_tmp"
_PARQUET, _GROWING, _COMPLETE = ".parquet", ".unfinished", ".complete"
_PROBE = "_kafkad_log/.create-only"
"""An object for checking that the store creates it only once."""


def unfinished_path(run_id: str, path: str) -> str:
    """The path of a file while the run writes it; `path` ends with .parquet."""
    return f"{UNFINISHED}/{run_id}/{path.removesuffix(_PARQUET)}{_GROWING}"


def pending_path(run_id: str, path: str) -> str:
    """The path of a complete file until the commit renames it to `path`."""
    return f"{UNFINISHED}/{run_id}/{path.removesuffix(_PARQUET)}{_COMPLETE}"


class PendingFile(NamedTuple):
    """A complete file of a run, and its path after the commit."""

    run_id: str
    path: str


def normalized(out: str) -> str:
    """Replace Hadoop's `s3a://` by `s3://`."""
    return f"s3://{out.removeprefix('s3a://')}" if out.startswith("s3a://") else out


def absolute(out: str) -> str:
    """The folder for processes with another working directory."""
    return out if "://" in out else str(Path(out).absolute())


class TableFolder:
    """Paths are relative to the folder, with slashes. Raises `ExportFailed` for an invalid folder."""

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
        """Open a new file for writing; see `finish`."""
        full = f"{self.root}/{path}"
        if self.is_local:
            self._files.create_dir(str(PurePosixPath(full).parent), recursive=True)
        return self._files.open_output_stream(full)

    def finish(self, unfinished: str, path: str) -> None:
        """Sync a complete file and rename it to `path`."""
        source, target = f"{self.root}/{unfinished}", f"{self.root}/{path}"
        if self.is_local:
            with open(source, "rb") as file:
                os.fsync(file.fileno())
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.rename(source, target)
            _sync(os.path.dirname(target))
        else:
            self._files.move(source, target)

    def rename_pending(self, pending_files: Iterable[PendingFile]) -> None:
        """Rename pending files on a disk to their final names; another process may have renamed some of them."""
        folders = set()
        with self._failures("written"):
            for run_id, path in pending_files:
                target = f"{self.root}/{path}"
                with suppress(FileNotFoundError):
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    os.rename(f"{self.root}/{pending_path(run_id, path)}", target)
                    folders.add(os.path.dirname(target))
            for folder in folders:
                _sync(folder)

    def pending_files(self) -> list[PendingFile]:
        """The complete files on a disk that are not renamed yet: before a commit, or after a run that was killed."""
        found = []
        for name in self.names(UNFINISHED, recursive=True) if self.is_local else ():
            if name.endswith(_COMPLETE):
                _, run_id, path = name.split("/", 2)
                found.append(PendingFile(run_id, f"{path.removesuffix(_COMPLETE)}{_PARQUET}"))
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
        """Open a file for random access. Raises FileNotFoundError."""
        with self._failures():
            return self._files.open_input_file(f"{self.root}/{path}")

    def names(self, path: str = "", *, recursive: bool = False) -> list[str]:
        """The files below `path`, sorted, as paths relative to the table's folder; empty if `path` does not exist."""
        return self._list(path, pa.fs.FileType.File, recursive=recursive)

    def folders(self, path: str = "") -> list[str]:
        """The folders in the table's folder, or in its folder `path`, sorted."""
        return self._list(path, pa.fs.FileType.Directory, recursive=False)

    def runs(self) -> set[str]:
        """The ids of runs on a disk that are in progress or were killed."""
        return {path.removeprefix(f"{UNFINISHED}/") for path in self.folders(UNFINISHED)}

    def _list(self, path: str, kind: Any, *, recursive: bool) -> list[str]:
        selector = pa.fs.FileSelector(f"{self.root}/{path}".rstrip("/"), allow_not_found=True, recursive=recursive)
        with self._failures():
            found = self._files.get_file_info(selector)
        paths = [each.path.removeprefix(self.root).strip("/") for each in found if each.type == kind]
        return sorted(paths)

    def size(self, path: str) -> int | None:
        """The size in bytes; None if the file does not exist."""
        with self._failures():
            found: int | None = self._files.get_file_info(f"{self.root}/{path}").size
        return found

    def age_s(self, path: str) -> float:
        """The time since the last write of the file."""
        with self._failures():
            info = self._files.get_file_info(f"{self.root}/{path}")
        return 0.0 if info.mtime_ns is None else time.time() - info.mtime_ns / 1e9

    def publish(self, path: str, content: bytes) -> bool:
        """Create and sync the file with this content; return False if the file exists. Only on a disk or in S3.

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
            # This process may have created the file itself: an NFS client repeats a request without a response.
            if not os.path.samefile(scratch, target):
                return False
        finally:
            scratch.unlink(missing_ok=True)
        _sync(str(target.parent))
        return True

    def check_store(self) -> None:
        """Check that the store creates a file only if it does not exist. Raises `UnsupportedStore`."""
        if not self.is_local:
            self._conditional_puts().check_store(_PROBE)

    def has_probe(self) -> bool:
        """Whether `check_store` has left its object: only in object stores."""
        return _PROBE in self.names(_PROBE.rpartition("/")[0])

    def _conditional_puts(self) -> "ConditionalPuts":
        # Only tables in object stores need obstore.
        from kafkad_lakehouse.export.conditional_puts import ConditionalPuts  # noqa: PLC0415

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
    """Raises `ExportFailed` without quoting the address, which may contain a password."""
    try:
        parts = urlsplit(out)
    except ValueError as error:
        raise ExportFailed(f"expected an address like s3://BUCKET/PATH: {error}") from None
    if any(each in out for each in "%?#") or (parts.scheme == "s3" and (not parts.netloc or "@" in parts.netloc)):
        raise ExportFailed(
            "expected an address like s3://BUCKET/PATH without %, ? and #: set other options by environment variables"
        )


def _sync(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
