"""The regions of shared memory, one module each; which process writes what is in docs/architecture.md."""
