"""The supervisor: creates the resources of all processes, and starts, watches, restarts and stops the processes.

It handles no request, and has no thread, no ZeroMQ context and no coordination client.
"""

from kafkad.processes.supervisor.start import StartTimeouts, run_broker

__all__ = ["StartTimeouts", "run_broker"]
