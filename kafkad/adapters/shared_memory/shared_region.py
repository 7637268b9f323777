"""A region of memory that all processes of the broker share.

The supervisor creates it before the fork at its maximum size, and the children inherit it: untouched pages cost
nothing, so a region never grows. `arena`, `partition_table`, `counters` and `process_registry` define the contents.
"""

import mmap
import os

PAGE = mmap.PAGESIZE


class SharedRegion:
    """`size` bytes of zeroes (rounded up to whole pages) named `name`, shared with all later children."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = -(-size // PAGE) * PAGE
        # A memfd, because unlike an anonymous mapping it has a name in /proc/PID/smaps.
        descriptor = os.memfd_create(f"kafkad-{name}", os.MFD_CLOEXEC)
        try:
            os.ftruncate(descriptor, self.size)
            self.mm = mmap.mmap(descriptor, self.size, mmap.MAP_SHARED)
        finally:
            os.close(descriptor)
        self.view = memoryview(self.mm)

    def punch(self, offset: int, length: int) -> None:
        """Release the whole pages within the range to the kernel; they read as zeroes afterwards."""
        start = -(-offset // PAGE) * PAGE
        end = (offset + length) // PAGE * PAGE
        if end > start:
            self.mm.madvise(mmap.MADV_REMOVE, start, end - start)

    def close(self) -> None:
        """Unmap the region in this process. The mapping remains while other views exist."""
        self.view.release()
        try:
            self.mm.close()
        except BufferError:
            # Casts and slices still exist; the mapping ends with the last of them.
            return
