"""The cleaner process: asks plugins what should go from which log, and has the owner of the partition do it.

It writes no file itself yet. Nothing that a policy does wrong reaches another partition than its own.
"""

from kafkad.processes.cleaner.shell import main

__all__ = ["main"]
