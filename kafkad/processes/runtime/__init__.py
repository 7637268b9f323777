"""What is the same in every process: start and end of a child, the event loop, rings, links to the other processes."""
