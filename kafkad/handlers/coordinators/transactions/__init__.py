"""The APIs of transaction coordinators, one module each."""
