"""kafkad as a user starts it: `python -m kafkad start`, in a folder of its own."""

import compileall
import sys
from pathlib import Path

from bench.brokers.broker import RunningBroker


class Kafkad(RunningBroker):
    """The daemon under test; its settings are those of `server.properties`."""

    name = "kafkad"

    @property
    def working_folder(self) -> Path:
        """The checkout, so that `-m kafkad` is its code whether or not it is installed."""
        return Path(__file__).parents[2]

    def prepare(self) -> None:
        """As pip does when it installs it: no start compiles modules, whatever PYTHONDONTWRITEBYTECODE says."""
        compileall.compile_dir(self.working_folder / "kafkad", quiet=1)

    def command(self) -> list[str]:
        settings = {"listeners": f"PLAINTEXT://{self.bootstrap}", "log.dirs": str(self.log_dir)}
        pairs = [f"{key}={value}" for key, value in (settings | self.overrides).items()]
        overrides = [part for pair in pairs for part in ("--override", pair)]
        return [sys.executable, "-m", "kafkad", "start", *overrides]


class InterpretedKafkad(Kafkad):
    """Nothing of it is compiled, whatever the checkout holds."""

    name = "interpreted"

    def command(self) -> list[str]:
        return ["env", "KAFKAD_INTERPRETED=all", *super().command()]
