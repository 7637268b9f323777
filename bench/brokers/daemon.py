"""kafkad as users start it: `python -m kafkad start`, with a separate folder."""

import compileall
import sys
from pathlib import Path

from bench.brokers.broker import RunningBroker


class Kafkad(RunningBroker):
    """The daemon under test; `overrides` are options of `server.properties`."""

    name = "kafkad"

    @property
    def working_folder(self) -> Path:
        """The checkout, so that `-m kafkad` runs its code, installed or not."""
        return Path(__file__).parents[2]

    def prepare(self) -> None:
        """Compile the bytecode, as an installation by pip does, so that no start does."""
        compileall.compile_dir(self.working_folder / "kafkad", quiet=1)

    def command(self) -> list[str]:
        settings = {"listeners": f"PLAINTEXT://{self.bootstrap}", "log.dirs": str(self.log_dir)}
        pairs = [f"{key}={value}" for key, value in (settings | self.overrides).items()]
        overrides = [part for pair in pairs for part in ("--override", pair)]
        return [sys.executable, "-m", "kafkad", "start", *overrides]


class InterpretedKafkad(Kafkad):
    """Runs without compiled modules."""

    name = "interpreted"

    def command(self) -> list[str]:
        return ["env", "KAFKAD_INTERPRETED=all", *super().command()]
