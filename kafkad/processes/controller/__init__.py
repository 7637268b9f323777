"""The controller process: the only one with the coordination store, and the source of all metadata.

kafkad.core.controller decides about topics, partitions and configurations; kafkad.handlers.controller makes the
responses to clients. This package opens the store, sends deltas, holds replies until all processes have applied
them, and checkpoints offsets. It never blocks on a client.
"""

from kafkad.processes.controller.loop import main

__all__ = ["main"]
