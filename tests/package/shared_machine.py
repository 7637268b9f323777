"""The machine of most tests: booted once, and put back between them into the state after its boot.

What a test may leave there: brokers, their configuration, data and plugins, settings of units, files in /srv, lines in
the journal. Who installs or removes packages takes a machine of its own.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.package.machine import Machine, Overlay

_REMEMBER = "tar -C / -cf /root/as-booted.tar etc/kafkad etc/systemd/system usr/local/lib/kafkad"
_FORGET = """
systemctl stop kafkad.service 'kafkad@*.service'
rm -rf /etc/kafkad /etc/systemd/system /usr/local/lib/kafkad /var/lib/kafkad /var/lib/kafkad@* /srv/*
tar -C / -xf /root/as-booted.tar
systemctl daemon-reload
systemctl reset-failed
journalctl --quiet --rotate --vacuum-size=1
systemctl start kafkad
"""


class SharedMachine:
    """Booted on `tree` when it is first asked for, and again after `discard`."""

    def __init__(self, tree: Path, folders: pytest.TempPathFactory) -> None:
        self._tree = tree
        self._folders = folders
        self._running = ExitStack()
        self._machine: Machine | None = None

    def as_booted(self) -> Machine:
        if self._machine is None:
            folder = self._folders.mktemp("shared")
            overlay = self._running.enter_context(Overlay(self._tree, folder / "machine"))
            self._machine = self._running.enter_context(Machine(overlay.root, folder / "console.log"))
            assert self._machine.is_active(), self._machine.run("systemctl status --no-pager kafkad || true")
            self._machine.run(_REMEMBER)
        else:
            self._machine.run(_FORGET)
        return self._machine

    def discard(self) -> None:
        """What a test that failed has left there is unknown."""
        self._machine = None
        self._running.close()
