"""What is asked of the kernel and of systemd: limits, the state of processes, the service manager."""
