"""Bytes to messages and back. kio encodes by schema; the few hot messages are packed by hand.

Nothing here looks inside a record batch.
"""
