"""Connections of a network process, from accept to close: frames in, replies out, memory, limits, pauses."""
