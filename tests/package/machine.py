"""A throw-away machine: an overlay on a tree, booted by systemd-nspawn with systemd as its first process.

`run` is a command on it, `beside` a program of this machine that sees the other's network. Asks for no terminal and
no service manager on this side.
"""

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.brokers.processes import WITHIN_S, eventually

_BOOTED = ("running", "degraded")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENVIRONMENT = (f"PATH={_PATH}", "LANG=C.UTF-8", "HOME=/root", "DEBIAN_FRONTEND=noninteractive")
_NSPAWN = ("systemd-nspawn", "--quiet", "--register=no", "--keep-unit")
CHECKOUT = Path(__file__).parents[2]
BUILD_S = 3600.0
"""What compiles, downloads or installs on a busy machine: only what hangs takes longer."""


class CommandFailed(AssertionError):
    """With everything that the command printed."""


def call(command: list[str], *, within: float = WITHIN_S, log: Path | None = None, cwd: Path | None = None) -> str:
    """Run a program here; what it printed. Raises `CommandFailed`."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=within, cwd=cwd
    )
    printed = done.stdout.decode(errors="replace")
    if log is not None:
        log.write_text(printed)
    if done.returncode != 0:
        raise CommandFailed(f"{shlex.join(command)}: exit code {done.returncode}\n{printed}")
    return printed


def run_in_tree(tree: Path, script: str, *, within: float = BUILD_S) -> str:
    """A shell script in a tree that is not booted; it has this machine's network."""
    shell = ["--pipe", "-D", str(tree), "env", "-i", *_ENVIRONMENT, "sh", "-euc", script]
    return call([*_NSPAWN, *shell], within=within)


class Overlay:
    """A tree that is `lower` with changes of its own, as long as the context lasts."""

    def __init__(self, lower: Path, folder: Path) -> None:
        self.root = folder / "root"
        self._lower = lower
        self._folder = folder

    def __enter__(self) -> "Overlay":
        for name in ("changes", "work", "root"):
            (self._folder / name).mkdir(parents=True)
        layers = f"lowerdir={self._lower},upperdir={self._folder}/changes,workdir={self._folder}/work"
        call(["mount", "-t", "overlay", "overlay", "-o", layers, str(self.root)])
        return self

    def __exit__(self, *_exception: object) -> None:
        call(["umount", str(self.root)])
        call(["rm", "-rf", "--one-file-system", str(self._folder)])


class Machine:
    """`root` booted, with a network of its own that has nothing but loopback."""

    def __init__(self, root: Path, log: Path) -> None:
        self.root = root
        self._log = log
        self._leader = 0

    def __enter__(self) -> "Machine":
        boot = ("--boot", "-D", str(self.root), "--console=pipe", "--private-network")
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [*_NSPAWN, *boot],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
            )
        try:
            eventually(self._has_booted, what="the machine boots")
        except AssertionError as error:
            self.__exit__()
            raise CommandFailed(f"{error}\n{self._log.read_text(errors='replace')}") from error
        return self

    def __exit__(self, *_exception: object) -> None:
        """As if the power was cut: nobody looks at its disk any more, and all its processes end with the first one."""
        if self._process.poll() is None:
            os.kill(self._leader or self._process.pid, signal.SIGKILL)
        self._process.wait(WITHIN_S)

    def _has_booted(self) -> bool:
        assert self._process.poll() is None, self._log.read_text(errors="replace")
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        if not children:
            return False
        self._leader = int(children[0])
        asked = subprocess.run(self._entered("systemctl is-system-running"), capture_output=True, text=True)
        return asked.stdout.strip() in _BOOTED

    def _entered(self, script: str) -> list[str]:
        return ["nsenter", "-t", str(self._leader), "-a", "--", "env", "-i", *_ENVIRONMENT, "sh", "-euc", script]

    def run(self, script: str, *, within: float = BUILD_S) -> str:
        """A shell script on the machine; what it printed. Raises `CommandFailed`."""
        try:
            return call(self._entered(script), within=within).strip()
        except CommandFailed as failure:
            journal = subprocess.run(self._entered("journalctl -n 25 --no-pager"), capture_output=True, text=True)
            raise CommandFailed(f"{failure}\n{journal.stdout}") from None

    def fails(self, script: str) -> str:
        """The same for one that must not succeed."""
        try:
            printed = self.run(script)
        except CommandFailed as failure:
            return str(failure)
        raise AssertionError(f"{script} succeeded: {printed}")

    def beside(self, *command: str) -> list[str]:
        """The command line of a program of this machine that has the other's network."""
        return ["nsenter", "-t", str(self._leader), "-n", "--", *command]

    @contextmanager
    def connected(self, here: str, there: str) -> Iterator[None]:
        """A cable between the two machines: an interface of this one, and one of the other."""
        call(["ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", str(self._leader)])
        try:
            yield
        finally:
            call(["ip", "link", "delete", here])

    def kcat(self, *arguments: str, say: str = "") -> str:
        """This machine's kcat; `say` is its standard input."""
        done = subprocess.run(
            self.beside("kcat", *arguments), input=say.encode(), capture_output=True, timeout=WITHIN_S, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def show(self, name: str, unit: str = "kafkad") -> str:
        return self.run(f"systemctl show -P {name} {unit}")

    def journal(self, *options: str, unit: str = "kafkad") -> str:
        return self.run(f"journalctl --sync; journalctl -q --no-pager -o cat -u {unit} {' '.join(options)}")

    def is_active(self, unit: str = "kafkad") -> bool:
        return self.show("ActiveState", unit) == "active"

    def main_pid(self, unit: str = "kafkad") -> int:
        """In the machine's own numbers."""
        pid = int(self.show("MainPID", unit))
        assert pid > 1, self.run(f"systemctl status --no-pager {unit} || true")
        return pid

    def pid_of(self, title: str) -> int:
        """The one process that calls itself `title`."""
        (pid,) = self.run(f"pgrep -f '^kafkad {title}$'").split()
        return int(pid)
