"""Default folders of data and sockets.

Never under /tmp: the system deletes files there.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath

STATIC_FILE = "/etc/kafkad/server.properties"


def default_log_dir(environ: Mapping[str, str], is_root: bool) -> str:
    """The state directory of the unit, else the system's folder for root, else the user's folder."""
    if environ.get("STATE_DIRECTORY"):
        return environ["STATE_DIRECTORY"].partition(":")[0]
    if is_root:
        return "/var/lib/kafkad"
    return str(_user_folder(environ, "XDG_DATA_HOME", ".local/share") / "kafkad")


def default_runtime_dir(environ: Mapping[str, str], is_root: bool) -> str:
    """A runtime folder, which has a short path: paths of sockets have at most 108 bytes."""
    if environ.get("RUNTIME_DIRECTORY"):
        return environ["RUNTIME_DIRECTORY"].partition(":")[0]
    if is_root:
        return "/run/kafkad"
    return str(_user_folder(environ, "XDG_RUNTIME_DIR", ".cache") / "kafkad")


def default_plugins_dir(environ: Mapping[str, str]) -> str:
    """The plugins folder that the command of the Debian package sets; empty without the package."""
    return environ.get("KAFKAD_PLUGINS_DIR", "")


def _user_folder(environ: Mapping[str, str], variable: str, below_home: str) -> PurePosixPath:
    named = environ.get(variable, "")
    # By the XDG specification relative paths are ignored.
    if named.startswith("/"):
        return PurePosixPath(named)
    return PurePosixPath(environ.get("HOME") or "/var/lib") / below_home
