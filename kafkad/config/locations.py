"""Where do data and sockets go when nobody says?

Never under /tmp: what is there is deleted by the system, and data of a forgotten option would go with it.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath

STATIC_FILE = "/etc/kafkad/server.properties"


def default_log_dir(environ: Mapping[str, str], is_root: bool) -> str:
    """What the service manager has made for the unit, else the system's folder for root, the user's for others."""
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
    """Where the package's command says that plugins are installed; without a package, nowhere."""
    return environ.get("KAFKAD_PLUGINS_DIR", "")


def _user_folder(environ: Mapping[str, str], variable: str, below_home: str) -> PurePosixPath:
    named = environ.get(variable, "")
    # The XDG specification has relative paths ignored.
    if named.startswith("/"):
        return PurePosixPath(named)
    return PurePosixPath(environ.get("HOME") or "/var/lib") / below_home
