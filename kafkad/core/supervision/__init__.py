"""The rules of the broker's own life cycle: states, restarts with back-off, the watchdog, the order of a stop."""
