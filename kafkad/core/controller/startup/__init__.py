"""Starts a controller: claims the role, compares the store with the log directories, and repairs differences."""
