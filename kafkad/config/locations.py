"""Where do data and sockets go when no option says so?

Never under /tmp: the system deletes files there, and the data with them.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath

STATIC_FILE = "/etc/kafkad/server.properties"


def default_log_dir(environ: Mapping[str, str], is_root: bool) -> str:
    """The folder that the service manager made for the unit, else the system's for root and the user's for others."""
    if environ.get("STATE_DIRECTORY"):
        return environ["STATE_DIRECTORY"].partition(":")[0]
    if is_root:
        return "/var/lib/kafkad"
    return str(_user_folder(environ, "XDG_DATA_HOME", ".local/share") / "kafkad")


def default_runtime_dir(environ: Mapping[str, str], is_root: bool) -> str:
    """Sockets have short paths (108 bytes), so the runtime folder is preferred to one beside the data."""
    if environ.get("RUNTIME_DIRECTORY"):
        return environ["RUNTIME_DIRECTORY"].partition(":")[0]
    if is_root:
        return "/run/kafkad"
    return str(_user_folder(environ, "XDG_RUNTIME_DIR", ".cache") / "kafkad")


def default_plugins_dir(environ: Mapping[str, str]) -> str:
    """The folder that the Debian package's command sets for plugins; None without the package."""
    return environ.get("KAFKAD_PLUGINS_DIR", "")


def _user_folder(environ: Mapping[str, str], variable: str, below_home: str) -> PurePosixPath:
    named = environ.get(variable, "")
    # The XDG specification says to ignore relative paths.
    if named.startswith("/"):
        return PurePosixPath(named)
    return PurePosixPath(environ.get("HOME") or "/var/lib") / below_home
