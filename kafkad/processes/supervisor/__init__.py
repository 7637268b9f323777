"""The supervisor: creates the resources of all processes, starts, watches and restarts them, and stops them in
order.

It serves no request, and has no thread, no ZeroMQ context and no coordination client.
"""

from kafkad.processes.supervisor.start import StartTimeouts, run_broker

__all__ = ["StartTimeouts", "run_broker"]
