"""The controller process forwards quota counts of one network process to the others."""

from collections.abc import Callable

from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessRegistry
from kafkad.wire.processes.controller_messages import QuotaCounts, pack_message


def forward(
    registry: ProcessRegistry, send: Callable[[ProcessKey, bytes], bool], peer: ProcessKey, counts: QuotaCounts
) -> None:
    """`peer` is the sender of the counts."""
    frame = pack_message(counts)
    for other in registry.role("network"):
        if other != peer:
            send(other, frame)
