"""A broker whose processes do next to nothing, for tests of the machinery that starts and stops them.

`python -m tests.daemon.trivial_broker FOLDER [key=value...]`: prints `serving PORT` once it serves, and each
process prints what happens to it, one line each: `worker-0 1 joined network-0 1`. A network process greets each
life of a peer.
A file FOLDER/<role>-<index>.<mode> changes what a process does: `crash` (dies before it is ready), `slow` (does
not stop), `fatal` (says so), `unclean` (stops, but not cleanly), `loading` (says that it is at 40 %, and never ready),
`hang` (does nothing any more once it is ready).
"""

import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from kafkad import plugin_loading
from kafkad.adapters.links.messaging import PeerChange, PeerGone, PeerJoined, PeerReplaced
from kafkad.adapters.links.supervision_channel import Fatal, ProcessesChanged, Ready, Reload, Stop, Stopped
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.config import Endpoint, load
from kafkad.core.supervision.stop_sequence import STAGES
from kafkad.processes import reporter
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.processes.runtime.peers import Peers
from kafkad.processes.supervisor import StartTimeouts, run_broker


class TrivialProcess:
    """Follows the process registry, greets workers, and notes what it sees."""

    def __init__(self, context: ChildContext, folder: Path) -> None:
        self._context = context
        self._folder = folder
        self._loop = EventLoop(block=context.block)
        self._peers = Peers(self._loop, context.registry, context.runtime_dir, context.key, on_frames=self._on_frames)
        self._is_told_to_stop = False

    def run(self) -> None:
        if self._has_mode("crash"):
            raise RuntimeError("told to crash")
        if self._has_mode("fatal"):
            self._context.channel.send(Fatal(text="told to be fatal"))
        self._loop.watch(self._context.channel.fd, self._on_channel)
        self._follow()
        # In this order: once the broker serves, everybody has said that it is ready.
        self._note("ready")
        if self._has_mode("loading"):
            self._context.registry.set_progress(self._context.key, 400, 1000)
        else:
            self._context.channel.send(Ready())
        if self._has_mode("hang"):
            self._hang()
        while not self._is_told_to_stop or self._has_mode("slow"):
            self._loop.run_once()
        self._note("stopped")
        self._context.channel.send(Stopped(is_clean=not self._has_mode("unclean")))
        self._peers.close()

    def _hang(self) -> None:
        threading.Event().wait()

    def _on_channel(self, events: int) -> None:
        for message in self._context.channel.receive():
            match message:
                case ProcessesChanged():
                    self._follow()
                case Stop():
                    self._is_told_to_stop = True
                    if self._context.key.role == "worker":
                        self._context.registry.set_progress(self._context.key, 4, 10)
                case Reload(static=static):
                    self._note(f"reload {static.get('log.retention.ms', '-')}")

    def _follow(self) -> None:
        changes: list[PeerChange] = self._peers.follow()
        for change in changes:
            match change:
                case PeerJoined(peer, incarnation):
                    self._note(f"joined {peer} {incarnation}")
                case PeerReplaced(peer, old, new):
                    self._note(f"replaced {peer} {old} {new}")
                case PeerGone(peer, incarnation):
                    self._note(f"gone {peer} {incarnation}")
            if not isinstance(change, PeerGone) and self._context.key.role == "network":
                self._peers.send(change.peer, f"hello from {self._me()}".encode())
        self._peers.mark_seen(changes)

    def _on_frames(self, peer: ProcessKey, frames: list[bytes]) -> None:
        for frame in frames:
            self._note(f"got {frame.decode(errors='replace')}")

    def _has_mode(self, mode: str) -> bool:
        return (self._folder / f"{self._context.key}.{mode}").exists()

    def _me(self) -> str:
        return f"{self._context.key} {self._context.incarnation}"

    def _note(self, text: str) -> None:
        say(f"{self._me()} {text}")


def say(line: str) -> None:
    """In one write: lines of different processes never mix in the pipe."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def main() -> int:
    folder = Path(sys.argv[1])
    overrides = [(name, value) for name, _, value in (pair.partition("=") for pair in sys.argv[2:])]
    settings = [
        ("log.dirs", f"{folder}/data"),
        ("kafkad.runtime.dir", f"{folder}/run"),
        ("kafkad.metrics.listener", ""),
        ("num.network.threads", "1"),
        ("num.io.threads", "2"),
        ("listeners", "PLAINTEXT://127.0.0.1:0"),
        *overrides,
    ]
    properties = folder / "server.properties"

    def trivial(context: ChildContext) -> None:
        TrivialProcess(context, folder).run()

    def announce(endpoints: Sequence[Endpoint]) -> None:
        say(f"serving {endpoints[0].port}")

    roles = dict.fromkeys(("controller", "worker", "network", "cleaner", "reporter"), trivial)
    plugins = None
    if "REAL_REPORTER" in os.environ:
        roles["reporter"], plugins = reporter.main, plugin_loading.load(enabled=False)
    file = properties if properties.exists() else None
    return run_broker(
        load(file, settings),
        announce,
        roles=roles,
        plugins=plugins,
        reread=lambda: load(properties, settings),
        timeouts=StartTimeouts(
            failures_allowed=int(os.environ.get("FAILURES_ALLOWED", "10")),
            stage_ms=dict.fromkeys(STAGES, int(os.environ.get("STAGE_MS", "60000"))),
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
