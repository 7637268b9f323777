"""Rings and doorbells as a broker has them, without a broker: for tests of one pair of ends, or of two processes."""

import os
from contextlib import ExitStack

from kafkad.adapters.shared_memory.descriptor_ring import DATA_BYTES, RING_BYTES, Doorbell, RingReader, RingWriter
from kafkad.adapters.shared_memory.shared_region import SharedRegion

LIVES = (1, 1)
_HEAD, _TAIL = 0, 8


class RingEnds:
    """A ring from end 0 to end 1 and one back, and the bell of each end."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.region = self._region("test-rings", 2 * RING_BYTES)
        sleep_words = self._region("test-bells", 4096).view.cast("Q")
        self.bells = [Doorbell(sleep_words, index, self._eventfd()) for index in range(2)]
        self.asleep = sleep_words

    def _region(self, name: str, size: int) -> SharedRegion:
        made = SharedRegion(name, size)
        self._stack.callback(made.close)
        return made

    def _eventfd(self) -> int:
        fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stack.callback(os.close, fd)
        return fd

    def writer(self, incarnations: tuple[int, int] = LIVES, end: int = 0) -> RingWriter:
        return RingWriter(self.region, end, incarnations, self.bells[1 - end])

    def reader(self, incarnations: tuple[int, int] = LIVES, end: int = 1) -> RingReader:
        return RingReader(self.region, 1 - end, incarnations)

    def stand_at(self, place: int) -> None:
        """The first ring is empty, and its next message begins at this byte of the data."""
        words = self.region.view[:RING_BYTES].cast("Q")
        words[_HEAD] = words[_TAIL] = place

    def scribble(self, rubbish: bytes) -> None:
        """Fill what is free of the first ring: what a writer that was killed before it published may have left."""
        words = self.region.view[:RING_BYTES].cast("Q")
        data = self.region.view[RING_BYTES - DATA_BYTES : RING_BYTES]
        head, tail = words[_HEAD], words[_TAIL]
        free = DATA_BYTES - (head - tail)
        filling = (rubbish * (free // len(rubbish) + 1))[:free]
        at = head % DATA_BYTES
        to_end = min(free, DATA_BYTES - at)
        data[at : at + to_end] = filling[:to_end]
        data[: free - to_end] = filling[to_end:]

    def close(self) -> None:
        self._stack.close()
