"""The file with the broker's ZooKeeper session, so that the next start after a crash can end the session at once.

Otherwise the cluster would elect other leaders only after the session timeout. The file contains the session's
password, so only the broker's user may read it.
"""

import json
import logging
from pathlib import Path

from kafkad.adapters.files.atomic_write import write_in_log_directory
from kafkad.core.ports import StorageFailed

log = logging.getLogger(__name__)

FILE_NAME = "kafkad-zookeeper-session.json"
_OWNER_ONLY = 0o600


class SessionFile:
    """`hosts` is zookeeper.connect; sessions of another ensemble are ignored."""

    def __init__(self, folder: Path, hosts: str) -> None:
        self._path = folder / FILE_NAME
        self._hosts = hosts

    def read(self) -> tuple[int, bytes] | None:
        """(id, password) of the last session; None without a usable session."""
        try:
            content = json.loads(self._path.read_bytes())
            hosts, session = content["hosts"], (int(content["session_id"], 16), bytes.fromhex(content["password"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("can't read %s, its session ends after zookeeper.session.timeout.ms: %s", self._path, error)
            return None
        return session if hosts == self._hosts else None

    def write(self, session: tuple[int, bytes]) -> None:
        content = {"hosts": self._hosts, "session_id": f"{session[0]:#x}", "password": session[1].hex()}
        try:
            write_in_log_directory(str(self._path), json.dumps(content).encode(), _OWNER_ONLY)
        except StorageFailed as error:
            log.warning("can't store the session, after a crash the cluster waits for its timeout: %s", error)

    def remove(self) -> None:
        """Remove the file, after the end of the session."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("can't remove %s: %s", self._path, error)
