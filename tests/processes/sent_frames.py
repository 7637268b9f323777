"""Stands for the links of a process: keeps the frames that a part sends."""

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.processes.runtime.peers import Sender


class SentFrames:
    """See `Sender`. The frames also go `to` the links of the process, if given."""

    def __init__(self, to: Sender | None = None) -> None:
        self.frames: list[tuple[ProcessKey, bytes]] = []
        self._to = to

    def send(self, peer: ProcessKey, frame: bytes, *, wakes: bool = True) -> bool:
        self.frames.append((peer, frame))
        return self._to is None or self._to.send(peer, frame, wakes=wakes)
