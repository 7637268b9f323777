"""The cleaner process: asks plugins what to remove from each log, and orders the owner of the partition to do it.

It writes compacted segments under names of its own, and renames nothing. An error of a policy
affects only the partition that it was asked about.
"""

from kafkad.processes.cleaner.loop import main

__all__ = ["main"]
