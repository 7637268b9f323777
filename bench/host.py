"""CPU, memory and file descriptors of a process tree, and the cost of the bare work on this machine.

CPU is from /proc/PID/stat, including ended children. Idle CPU is from the scheduler's nanosecond counters, because the
ticks in `stat` are too coarse for a tenth of a percent.
"""

import mmap
import os
import resource
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import crc32c

from bench.brokers.processes import process_tree

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = mmap.PAGESIZE
_FLOOR_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """Seconds of CPU, user and system."""

    user: float
    system: float

    @property
    def total(self) -> float:
        return self.user + self.system

    def __sub__(self, other: "Cpu") -> "Cpu":
        return Cpu(user=self.user - other.user, system=self.system - other.system)


def cpu_of_tree(root: int) -> Cpu:
    """CPU used so far by `root` and its descendants, including ended ones."""
    user = system = 0
    for process in process_tree(root):
        stat = Path(f"/proc/{process.pid}/stat").read_bytes()
        fields = stat[stat.rindex(b")") + 2 :].split()
        user += int(fields[11]) + int(fields[13])
        system += int(fields[12]) + int(fields[14])
    return Cpu(user=user / _TICKS, system=system / _TICKS)


def own_cpu() -> Cpu:
    """CPU used so far by the process of the benchmark, which is the cost of the load."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Cpu(user=used.ru_utime, system=used.ru_stime)


def idle_cpu_percent(root: int, seconds: float) -> float:
    """CPU of the idle tree over `seconds`, in percent of one core."""
    before, started = _on_cpu_ns(root), time.monotonic_ns()
    time.sleep(seconds)
    return 100 * (_on_cpu_ns(root) - before) / (time.monotonic_ns() - started)


def _on_cpu_ns(root: int) -> int:
    threads = (task for process in process_tree(root) for task in Path(f"/proc/{process.pid}/task").iterdir())
    return sum(int((task / "schedstat").read_text().split()[0]) for task in threads)


def pss_megabytes(root: int) -> float:
    """Memory of the tree with shared pages counted once (proportional set size)."""
    kilobytes = 0
    for process in process_tree(root):
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                kilobytes += int(line.split()[1])
    return kilobytes / 1024


def open_files(root: int) -> int:
    """The number of open file descriptors of the tree."""
    return sum(len(os.listdir(f"/proc/{process.pid}/fd")) for process in process_tree(root))


def touch_memory(gigabytes: int) -> None:
    """Touch and free memory, so that the host of a virtual machine backs it before a measurement.

    Otherwise each page that was not used recently causes a page fault in the host, which dominates the measurement.
    """
    if not gigabytes:
        return
    with mmap.mmap(-1, gigabytes << 30) as memory:
        memory[::_PAGE] = b"\1" * (len(memory) // _PAGE)


def floor(folder: Path, scratch_gigabytes: int) -> dict[str, float]:
    """The minimum CPU seconds for a GB on this machine: writing, and receiving with a checksum."""
    touch_memory(scratch_gigabytes)
    figures = {}
    for name, piece in (("write() of 1 MB pieces", 1 << 20), ("write() of 16 KB pieces", 16 << 10)):
        # The better of two: the first may still have page faults in the host.
        figures[name] = min(_write_cost(folder / "floor", piece) for _ in range(2))
    figures["receive and CRC-32C"] = _receive_cost()
    return figures


def _write_cost(path: Path, piece: int) -> float:
    data = os.urandom(piece)
    before = own_cpu()
    with open(path, "wb", buffering=0) as file:
        for _ in range(_FLOOR_BYTES // piece):
            file.write(data)
    cost = (own_cpu() - before).total
    path.unlink()
    return cost * (10**9 / _FLOOR_BYTES)


def _receive_cost() -> float:
    near, far = socket.socketpair()
    with near, far:
        sender = threading.Thread(target=_send_zeros, args=(far,))
        sender.start()
        buffer = bytearray(1 << 20)
        view = memoryview(buffer)
        left, before = _FLOOR_BYTES, time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)
        while left:
            got = near.recv_into(view)
            crc32c.crc32c(view[:got])
            left -= got
        cost = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID) - before
        sender.join()
    return cost * (10**9 / _FLOOR_BYTES)


def _send_zeros(far: socket.socket) -> None:
    data = bytes(1 << 20)
    for _ in range(_FLOOR_BYTES // len(data)):
        far.sendall(data)
