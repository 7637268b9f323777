"""What is asked of an export that reads segment files, without a broker."""

from pathlib import Path
from typing import Any

from kafkad.export.wanted import Wanted


def from_files(folder: Path, **more: Any) -> Wanted:
    """The topic t of the log directory `log` in the folder, into its `table`."""
    asked = {"topic": "t", "out": str(folder / "table"), "name": "t", "bootstrap": "", "source": "files"}
    return Wanted(**{**asked, "log_dirs": (str(folder / "log"),), **more})
