"""The cleaner process: plans the cleanup of each log with plugins, and sends the orders to the owner of the partition.

It writes compacted segments under temporary names, and renames nothing. An error of a policy affects only the
partition of the call.
"""

from kafkad.processes.cleaner.loop import main

__all__ = ["main"]
