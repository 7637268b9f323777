"""The progress of a start or a stop, as the text that `systemctl status` shows."""

from collections.abc import Mapping

from kafkad.adapters.shared_memory.process_registry import ProcessRegistry
from kafkad.core.supervision.stop_sequence import StopRole

CONTROLLED_SHUTDOWN = "stopping: other brokers take over the leadership"
STOPPING: Mapping[str, str] = {
    "network": "stopping: completing pending requests",
    "fetcher": "stopping: ending fetches from leaders",
    "cleaner": "stopping: ending the cleaning pass",
    "worker": "stopping: flushing {} partitions",
    "controller": "stopping: writing checkpoints",
    "reporter": "stopping: reporting the last metrics",
}


def of_start(registry: ProcessRegistry, *, is_recovering: bool) -> str:
    done, total = _partitions(registry)
    percent = 100 * done // total if total else 0
    return f"recovering {percent} %" if is_recovering else f"loading {percent} %"


def of_stop(registry: ProcessRegistry, stage: StopRole | None) -> str | None:
    """None if the text has not changed."""
    done, total = _partitions(registry)
    # Right after `Stop` a worker has not reported its count yet.
    if stage is None or (stage.role == "worker" and done == total):
        return None
    return STOPPING[stage.role].format(total - done)


def _partitions(registry: ProcessRegistry) -> tuple[int, int]:
    """The total progress of all workers."""
    rows = [registry.progress(key) for key in registry.role("worker")]
    return sum(row[0] for row in rows), sum(row[1] for row in rows)
