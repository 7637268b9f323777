"""A broker that dies in the middle of a compaction, with everything else in its logs that there may be."""

import os
import signal
from functools import partial
from pathlib import Path

from bench.brokers.broker import RunningBroker
from bench.brokers.processes import eventually
from kafkad.adapters.files.checkpoint_files import read_offsets
from kafkad.core.log.records.batch_scan import walk_batches
from kafkad.core.log.recovery.checkpoints import LOG_START_OFFSETS
from kafkad.core.types import TopicPartition
from tests.compat import written_logs
from tests.compat.compacted_logs import cleaned, wait_for_compaction
from tests.compat.served_logs import Partition, ServedPartition, served

Contents = dict[Partition, ServedPartition]
CLEANER = {
    "log.cleaner.backoff.ms": "100",
    # What compaction has replaced stays, with its suffix.
    "log.segment.delete.delay.ms": "3600000",
}
"""Settings that this needs."""
_HALF = ("half-compacted", 0)


def trim(broker: RunningBroker, offset: int) -> None:
    """Return when a kill can't take it back."""
    written_logs.trim(broker, offset)
    eventually(
        lambda: read_offsets(broker.log_dir, LOG_START_OFFSETS).get(TopicPartition("trimmed", 0)) == offset,
        what="the log start is in its checkpoint",
    )


def _stop_in_mid_compaction(broker: RunningBroker, name: str) -> None:
    """Kill it while there is a `.cleaned` file; a round of the cleaner that nobody saw is followed by another."""
    half, hour = broker.log_dir / "half-compacted-0", 0
    while True:
        written_logs.write_to_be_compacted(broker, name, hour)
        active = max(int(path.stem) for path in half.glob("*.log"))
        while cleaned(broker, "half-compacted") < active:
            if any(name.endswith(".cleaned") for name in os.listdir(half)):
                os.kill(broker.pid, signal.SIGSTOP)
                if any(half.glob("*.cleaned")):
                    broker.kill()
                    return
                os.kill(broker.pid, signal.SIGCONT)
        hour += 10


def _read_at(descriptor: int, size: int, position: int) -> bytes:
    return os.pread(descriptor, size, position)


def _replaced_last(directory: Path) -> set[int]:
    """Where the segments begin that a last compaction has replaced, and not one before it, whose first has its name."""
    bases, end = set(), 0
    for path in sorted(directory.glob("*.log.deleted")):
        base = int(path.name[:20])
        if base >= end:
            bases.add(base)
            with path.open("rb") as file:
                batches = walk_batches(partial(_read_at, file.fileno()), 0, path.stat().st_size)
                end = max((header.next_offset for _, header in batches), default=base)
    return bases


def _swap_back(directory: Path) -> None:
    """What compaction has replaced is there again, beside `.swap` files: as before the old ones were renamed."""
    bases = _replaced_last(directory)
    replaced = [path for path in sorted(directory.glob("*.deleted")) if int(path.name[:20]) in bases]
    assert replaced, f"nothing was replaced in {directory}"
    for path in sorted(directory.glob("*.*")):
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex") and int(path.stem) in bases:
            path.rename(f"{path}.swap")
    for path in replaced:
        path.rename(path.with_suffix(""))


def write_and_kill_in_mid_compaction(broker: RunningBroker, name: str) -> Contents:
    """What it served before; `_HALF` is changed afterwards."""
    written_logs.create_all(broker)
    written_logs.write_all(broker, name, 0)
    trim(broker, 43)
    for topic in ("compacted", "compacted-transactions"):
        wait_for_compaction(broker, topic)
    stays = written_logs.leave_open(broker, name, 4)
    contents = served(broker, [at for at in written_logs.PARTITIONS if at != _HALF])
    _stop_in_mid_compaction(broker, name)
    del stays
    _swap_back(broker.log_dir / "compacted-0")
    return contents
