"""Calls to the kernel and systemd: limits, the state of processes, the service manager."""
