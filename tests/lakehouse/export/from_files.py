"""What is asked of an export that reads segment files, without a broker."""

from pathlib import Path
from typing import Any

from kafkad_lakehouse.export.request import ExportRequest


def from_files(folder: Path, **more: Any) -> ExportRequest:
    """The topic t of the log directory `log` in the folder, into its `table`."""
    asked = {"topic": "t", "out": str(folder / "table"), "name": "t", "bootstrap": "", "source": "files"}
    return ExportRequest(**{**asked, "log_dirs": (str(folder / "log"),), **more})
