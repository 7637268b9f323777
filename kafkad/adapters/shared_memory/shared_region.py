"""One piece of memory that every process of the broker sees.

The supervisor creates it before the fork at its largest size, and the children inherit it: an untouched page costs
nothing, so a region never grows. `arena`, `partition_table`, `counters` and `process_registry` give the bytes their
meaning.
"""

import mmap
import os

PAGE = mmap.PAGESIZE


class SharedRegion:
    """`size` bytes (rounded up to whole pages) of zeroes under `name`, shared with all later children."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = -(-size // PAGE) * PAGE
        # A memfd, because unlike an anonymous mapping it has a name in /proc/PID/smaps, where memory is counted.
        descriptor = os.memfd_create(f"kafkad-{name}", os.MFD_CLOEXEC)
        try:
            os.ftruncate(descriptor, self.size)
            self.mm = mmap.mmap(descriptor, self.size, mmap.MAP_SHARED)
        finally:
            os.close(descriptor)
        self.view = memoryview(self.mm)

    def punch(self, offset: int, length: int) -> None:
        """Give the whole pages inside the range back to the kernel; they read as zeroes afterwards."""
        start = -(-offset // PAGE) * PAGE
        end = (offset + length) // PAGE * PAGE
        if end > start:
            self.mm.madvise(mmap.MADV_REMOVE, start, end - start)

    def close(self) -> None:
        """Unmap here. Views that are still held elsewhere keep the mapping until they are gone."""
        self.view.release()
        try:
            self.mm.close()
        except BufferError:
            # Casts and slices are still in use; the mapping ends with the last of them.
            return
