"""The session of a broker with ZooKeeper, kept in a file of its own: whoever starts after a crash ends it at once.

Without that the cluster waits for its timeout before others lead. Only the broker may read the file, as it holds the
session's password. It is worth nothing any more when the session has ended.
"""

import json
import logging
from pathlib import Path

from kafkad.adapters.files.atomic_write import write_in_log_directory
from kafkad.core.ports import StorageFailed

log = logging.getLogger(__name__)

FILE_NAME = "kafkad-zookeeper-session.json"
_OWNER_ALONE = 0o600


class SessionFile:
    """`hosts` is zookeeper.connect: the session of another ensemble is not ours."""

    def __init__(self, folder: Path, hosts: str) -> None:
        self._path = folder / FILE_NAME
        self._hosts = hosts

    def read(self) -> tuple[int, bytes] | None:
        """(id, password) of the last session; None if there is none that can be used."""
        try:
            kept = json.loads(self._path.read_bytes())
            hosts, session = kept["hosts"], (int(kept["session_id"], 16), bytes.fromhex(kept["password"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("%s can't be read, the session in it ends by itself: %s", self._path, error)
            return None
        return session if hosts == self._hosts else None

    def write(self, session: tuple[int, bytes]) -> None:
        kept = {"hosts": self._hosts, "session_id": f"{session[0]:#x}", "password": session[1].hex()}
        try:
            write_in_log_directory(str(self._path), json.dumps(kept).encode(), _OWNER_ALONE)
        except StorageFailed as error:
            log.warning("after a crash the cluster waits for the session's timeout: %s", error)

    def remove(self) -> None:
        """The session has ended."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s can't be removed: %s", self._path, error)
