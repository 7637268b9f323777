"""The parts that all processes share: start and end of a child, the event loop, rings, links to the other processes."""
