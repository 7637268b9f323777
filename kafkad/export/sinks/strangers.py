"""May a table be made in this folder? Not beside files or folders of somebody else, or in a table of another kind."""

from kafkad.export.places import TableFolder
from kafkad.export.problems import ExportFailed
from kafkad.export.writing import DATE, is_named_by_run

_LOGS = {"parquet": "_kafkad_log", "delta": "_delta_log", "iceberg": "metadata"}
_FOLDERS = ("metadata", "lost+found")
"""Of Iceberg, and of a file system."""


def check_strangers(folder: TableFolder, kind: str) -> None:
    """Files of an export that was killed before its first commit are none. Raises `ExportFailed`."""
    strangers = [name for name in folder.names() if not name.startswith(("_", ".")) and not is_named_by_run(name)]
    for name in folder.folders():
        if not name.startswith(("_", ".", f"{DATE}=")) and name not in _FOLDERS:
            strangers.append(f"{name}/")
    if strangers:
        raise ExportFailed(f"{folder.out} has files of somebody else ({strangers[0]}): name an empty folder")
    for other, log in _LOGS.items():
        if other != kind and any(not name.startswith(f"{log}/.") for name in folder.names(log)):
            raise ExportFailed(f"{folder.out} is a table of another kind, {other}: name an empty folder")
