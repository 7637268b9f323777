"""Reports the state of the service to systemd (sd_notify(3)).

Only the supervisor does so; children drop the socket. Without NOTIFY_SOCKET all calls do nothing.
"""

import array
import os
import shlex
import socket
import sys
from collections.abc import MutableMapping

UNIT = "KAFKAD_UNIT"
"""kafkad's unit files set this variable to the name of the unit."""
_HOMES = ("/home", "/root", "/run/user")
"""The directories that ProtectHome= hides."""


class ServiceManager:
    """Each notification is one datagram."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        self._environment = environment
        address = environment.get("NOTIFY_SOCKET", "")
        # A leading @ stands for the zero byte of the abstract namespace.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        is_for_us = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog_ms = int(environment.get("WATCHDOG_USEC", "0")) // 1000 if is_for_us else 0
        """The longest interval between calls of `alive`; 0 without a watchdog."""

    def ready(self, status: str) -> None:
        self._notify(f"READY=1\nSTATUS={status}")

    def status(self, text: str) -> None:
        self._notify(f"STATUS={text}")

    def stopping(self, status: str) -> None:
        self._notify(f"STOPPING=1\nSTATUS={status}")

    def alive(self) -> None:
        if self.watchdog_ms:
            self._notify("WATCHDOG=1")

    def starting_for(self, seconds: int, status: str) -> None:
        """The start continues: extend its timeout to at least `seconds` from now."""
        self._notify(f"EXTEND_TIMEOUT_USEC={seconds * 1_000_000}\nSTATUS={status}")

    def keep(self, name: str, end: socket.socket) -> None:
        """Store a listening socket for the next start; new connections wait in its queue until then."""
        self._notify(f"FDSTORE=1\nFDPOLL=0\nFDNAME={name}", end)

    def drop(self, name: str) -> None:
        """Remove a stored socket."""
        self._notify(f"FDSTOREREMOVE=1\nFDNAME={name}")

    def forget(self) -> None:
        """Called in a child: neither the child nor its children may notify systemd."""
        self._address = ""
        self._environment.pop("NOTIFY_SOCKET", None)

    def _notify(self, text: str, attached: socket.socket | None = None) -> None:
        if not self._address:
            return
        rights = []
        if attached is not None:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [attached.fileno()]))]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            try:
                sender.sendmsg([text.encode()], rights, 0, self._address)
            except OSError:
                # The broker continues without the service manager.
                return


def is_journal(environment: MutableMapping[str, str] = os.environ) -> bool:
    """Whether stderr is the journal, which supports level prefixes (sd-daemon(3))."""
    try:
        status = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return False
    return environment.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def command_that_lets_in(path: str, environment: MutableMapping[str, str] = os.environ) -> str | None:
    """The command for root that permits kafkad's unit to write to `path`; None outside a unit of kafkad."""
    unit = environment.get(UNIT)
    if not unit:
        return None
    lines = ["[Service]", f"ReadWritePaths={path}"]
    if path.startswith(_HOMES):
        lines.append("ProtectHome=no")
    text = "\\n".join([*lines, ""])
    folder = f"/etc/systemd/system/{unit}.d"
    return (
        f"install -d -o kafkad -g kafkad {shlex.quote(path)} && mkdir -p {folder} && "
        f"printf '{text}' >{folder}/log-dirs.conf && systemctl daemon-reload && systemctl restart {unit}"
    )
