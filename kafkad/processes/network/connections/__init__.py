"""Connections of a network process, from accept to close: requests, replies, memory, limits, throttling."""
