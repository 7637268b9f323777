"""May a table be made in this folder? Not beside files or folders of somebody else, in a table of another kind, or
beside the files of a table whose log is gone.
"""

from kafkad.export.places import TableFolder
from kafkad.export.problems import ExportFailed
from kafkad.export.writing import DATE, is_named_by_run, is_written_by_run, parse_name

_LOGS = {"parquet": "_kafkad_log", "delta": "_delta_log", "iceberg": "metadata"}
_FOLDERS = ("metadata", "lost+found")
"""Of Iceberg, and of a file system."""


def check_foreign_files(folder: TableFolder, kind: str) -> None:
    """Files of an export that was killed before its first commit are none. Raises `ExportFailed`."""
    foreign_files = [name for name in folder.names() if not name.startswith(("_", ".")) and not is_named_by_run(name)]
    for name in folder.folders():
        if not name.startswith(("_", ".", f"{DATE}=")) and name not in _FOLDERS:
            foreign_files.append(f"{name}/")
    if foreign_files:
        raise ExportFailed(f"{folder.out} has other files ({foreign_files[0]}): use an empty folder")
    for other, log in _LOGS.items():
        if other != kind and any(not name.startswith(f"{log}/.") for name in folder.names(log)):
            raise ExportFailed(f"{folder.out} is a table of another format, {other}: use an empty folder")


def files_of_runs(folder: TableFolder) -> list[str]:
    """Files with names that runs give, where runs write those of the table; sorted."""
    dates = [each for each in folder.folders() if each.startswith(f"{DATE}=")]
    names = [*folder.names(), *(name for each in dates for name in folder.names(each, recursive=True))]
    return sorted(filter(is_written_by_run, names))


def check_has_log(folder: TableFolder, log: str) -> None:
    """Whether the files of runs that are there, beside no commit, can be those of a run that was killed before the
    first one: then it has left something else, too. Raises `ExportFailed`.
    """
    files = files_of_runs(folder)
    if folder.is_local:
        killed = folder.runs()
        files = [path for path in files if run_of(path) not in killed]
    elif folder.names(log):
        # Before a run writes anything there it asks what the store can do.
        return
    if files:
        raise ExportFailed(
            f"{folder.out} has files of an export ({files[0]}), but {log} is not there, which says what belongs to the"
            f" table: every record would come once more. Copy it as well (its name begins with _), or make it anew from"
            " the files with kafkad export maintain --rebuild-log"
        )


def run_of(path: str) -> str | None:
    """The run that wrote the file, as its name says."""
    name = parse_name(path.rpartition("/")[2])
    return None if name is None else name.run_id
