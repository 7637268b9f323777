"""Waiting requests and timers: timing wheel, purgatory and the delayed operations."""
