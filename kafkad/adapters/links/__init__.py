"""What connects processes with each other and with the world: ZeroMQ, socket pairs, listening sockets, HTTP."""
