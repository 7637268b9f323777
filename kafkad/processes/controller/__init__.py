"""The controller process: the only one with the coordination store, and the source of all metadata.

What topics, partitions and configurations may become is decided in kafkad.core.controller; the answers to
clients are made in kafkad.handlers.controller. Here the store is opened, deltas are sent, replies wait until
everybody has applied them, and offsets are checkpointed. It never blocks on a client.
"""

from kafkad.processes.controller.shell import main

__all__ = ["main"]
