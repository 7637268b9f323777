"""Pending requests and timers: timing wheel, purgatory and delayed operations."""
