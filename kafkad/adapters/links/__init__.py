"""Connections between processes, and to clients: ZeroMQ, socket pairs, listening sockets, HTTP."""
