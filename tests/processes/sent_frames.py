"""Stands for the links of a process: keeps the frames that a part sends."""

from kafkad.adapters.shared_memory.process_registry import ProcessKey


class SentFrames:
    """See `Sender`."""

    def __init__(self) -> None:
        self.frames: list[tuple[ProcessKey, bytes]] = []

    def send(self, peer: ProcessKey, frame: bytes, *, wakes: bool = True) -> bool:
        self.frames.append((peer, frame))
        return True
