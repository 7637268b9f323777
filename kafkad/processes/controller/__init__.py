"""The controller process: the only one with the coordination store, and the source of all metadata.

It applies the elected controller's requests to this broker (`events`, kafkad.core.hosting), and runs the controller
while this broker is elected (`controller_role`, kafkad.core.controller); a single broker always is. It sends deltas to
the other processes, holds replies until all have applied them, and checkpoints offsets. It never blocks on a client.
"""

from kafkad.processes.controller.loop import main

__all__ = ["main"]
