"""The regions of shared memory, one module each; docs/architecture.md lists their writers."""
