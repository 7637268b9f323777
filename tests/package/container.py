"""Builds packaging/container/Containerfile with buildah, and runs what it describes, where no images can be fetched.

The image that its FROM line names is made of Debian's packages first, under that very name. Containers are
chroots: asks for root only, for no engine and no namespace of a nested machine.
"""

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

from bench.brokers.processes import WITHIN_S, Process, eventually, kill_all, process_tree
from tests.package.machine import BUILD_S, CHECKOUT, call

FILE = CHECKOUT / "packaging/container/Containerfile"


class Images:
    """A store of images in `folder`, for nobody else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        where = ["--root", str(folder / "store"), "--runroot", str(folder / "run")]
        self.buildah = ["buildah", *where, "--storage-driver", "vfs"]

    def do(self, *arguments: str, within: float = BUILD_S) -> str:
        return call([*self.buildah, *arguments], within=within).strip()

    def add_base(self, tree: Path) -> None:
        """`tree`, an archive, becomes the image that the file begins with."""
        (name,) = re.findall(r"^FROM (\S+)$", FILE.read_text(), re.MULTILINE)
        container = self.do("from", "scratch")
        self.do("add", "--quiet", container, str(tree), "/")
        self.do("commit", "--quiet", "--rm", container, name)

    def build(self, name: str, context: Path) -> None:
        how = ("--isolation", "chroot", "--network", "host", "--pull-never")
        self.do("build", *how, "--file", str(FILE), "--tag", name, str(context))

    def configuration(self, name: str) -> dict[str, Any]:
        """What an engine is told about it: `config` of the OCI image."""
        found: dict[str, Any] = json.loads(self.do("inspect", "--type", "image", name))["OCIv1"]["config"]
        return found

    def close(self) -> None:
        # Five times as fast as asking for each image and container.
        call(["rm", "-rf", "--one-file-system", str(self._folder)])


class Container:
    """One of an image: its files, and its entry point running as its user in a network of its own."""

    def __init__(self, images: Images, image: str, log: Path) -> None:
        self._images = images
        self._name = images.do("from", "--pull-never", image)
        self._entrypoint = images.configuration(image)["Entrypoint"]
        self.root = Path(images.do("mount", self._name))
        self._log = log

    def __enter__(self) -> "Container":
        run = [*self._images.buildah, "run", "--isolation", "chroot", "--network", "host"]
        command = shlex.join([*run, self._name, "--", *self._entrypoint])
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                ["unshare", "--net", "sh", "-euc", f"ip link set lo up; exec {command}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            eventually(self._is_ready_or_gone, what="the broker of the container is ready")
        except AssertionError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        kill_all(process_tree(self._process.pid))
        self._process.wait()

    def _is_ready_or_gone(self) -> bool:
        assert self._process.poll() is None, self.said()
        return "is ready after" in self.said()

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def supervisor(self) -> Process:
        """The process that is the container's first one where there is an engine."""
        return next(each for each in process_tree(self._process.pid) if each.title.startswith("/usr/lib/kafkad"))

    def beside(self, *command: str, say: str = "") -> str:
        """A program of this machine in the container's network; `say` is its standard input."""
        done = subprocess.run(
            ["nsenter", "-t", str(self._process.pid), "-n", "--", *command],
            input=say.encode(),
            capture_output=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def stop(self) -> int:
        """As an engine does it; the exit code."""
        os.kill(self.supervisor().pid, signal.SIGTERM)
        return self._process.wait(WITHIN_S)
