"""What one network process has counted against a quota, the others hear by the controller process."""

from collections.abc import Callable

from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessRegistry
from kafkad.wire.processes.controller_messages import QuotaCounts, pack_message


def forward(
    registry: ProcessRegistry, send: Callable[[ProcessKey, bytes], bool], peer: ProcessKey, counts: QuotaCounts
) -> None:
    """`peer` is who has counted."""
    frame = pack_message(counts)
    for other in registry.role("network"):
        if other != peer:
            send(other, frame)
