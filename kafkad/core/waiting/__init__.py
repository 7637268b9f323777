"""What waits and when it stops waiting: timing wheel, purgatory and the delayed operations."""
