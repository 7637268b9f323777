"""The rules of the broker's processes: states, restarts with back-off, the watchdog, the order of a stop."""
