"""Code of all processes: start and exit of a child, the event loop, rings, links to the other processes."""
