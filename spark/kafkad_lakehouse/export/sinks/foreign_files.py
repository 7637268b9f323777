"""Check whether a folder may become a new table: not if it has foreign files, a table of another format, or the files
of a table without its log.
"""

from collections.abc import Callable
from typing import TypeVar

from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.export.writing import DATE, is_run_file, is_run_file_name, parse_name

Loaded = TypeVar("Loaded")
_LOGS = {"parquet": "_kafkad_log", "delta": "_delta_log", "iceberg": "metadata"}
_FOLDERS = ("metadata", "lost+found")
"""Folders of Iceberg and of a file system."""


def check_foreign_files(folder: TableFolder, kind: str) -> None:
    """Raises `ExportFailed` for foreign files. Files of an export without a commit are not foreign."""
    foreign_files = [name for name in folder.names() if not name.startswith(("_", ".")) and not is_run_file_name(name)]
    for name in folder.folders():
        if not name.startswith(("_", ".", f"{DATE}=")) and name not in _FOLDERS:
            foreign_files.append(f"{name}/")
    if foreign_files:
        raise ExportFailed(f"{folder.out} has other files ({foreign_files[0]}): use an empty folder")
    for other, log in _LOGS.items():
        if other != kind and any(not name.startswith(f"{log}/.") for name in folder.names(log)):
            raise ExportFailed(f"{folder.out} is a table of another format, {other}: use an empty folder")


def files_of_runs(folder: TableFolder) -> list[str]:
    """The files that runs wrote to the folder, sorted."""
    dates = [each for each in folder.folders() if each.startswith(f"{DATE}=")]
    names = [*folder.names(), *(name for each in dates for name in folder.names(each, recursive=True))]
    return sorted(filter(is_run_file, names))


def table_of_another_run(
    folder: TableFolder, kind: str, load: Callable[[], Loaded | None], log: str, remedy: str, *, looks_for_files: bool
) -> Loaded | None:
    """None if the folder may become a new table. `load` reads the table: another export may create it meanwhile, and
    then it is returned.

    Raises `ExportFailed` for foreign files and, if `looks_for_files`, for files of runs without `log`, the log of their
    table; `remedy` tells what to do then.
    """
    check_foreign_files(folder, kind)
    files = _files_of_lost_table(folder) if looks_for_files else []
    table = load() if files else None
    if files and table is None:
        raise ExportFailed(
            f"{folder.out} has files of an export ({files[0]}), but {log} is missing: every record would be exported"
            f" again. {remedy}"
        )
    return table


def _files_of_lost_table(folder: TableFolder) -> list[str]:
    """The files of runs in a folder without a table that no killed run explains: the log of their table is missing.

    A run that was killed before the first commit has also left its folder of unfinished files or, in an object store,
    the probe object of `check_store`. Call it only for stores that `check_store` checks, or for a disk.
    """
    files = files_of_runs(folder)
    if folder.is_local:
        killed = folder.runs()
        return [path for path in files if run_of(path) not in killed]
    # A run checks the store before it writes files.
    return [] if folder.has_probe() else files


def remove_failed_run(folder: TableFolder, run_id: str) -> None:
    """Remove the files of a run without a commit, also those whose results were lost, and its unfinished files.

    A file without its run's folder of unfinished files would be taken for one of a lost table. So that folder is
    removed after the files. A task that is not stopped yet may finish a file in between, but none later: either the
    folder of its unfinished file is gone or it creates the folder again.
    """
    _remove_files_of_run(folder, run_id)
    folder.remove_unfinished(run_id)
    _remove_files_of_run(folder, run_id)


def _remove_files_of_run(folder: TableFolder, run_id: str) -> None:
    for path in files_of_runs(folder):
        if run_of(path) == run_id:
            folder.remove(path)


def run_of(path: str) -> str | None:
    """The id of the run in the file name."""
    name = parse_name(path.rpartition("/")[2])
    return None if name is None else name.run_id
