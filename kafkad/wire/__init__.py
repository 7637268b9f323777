"""Bytes to messages and back. kio does the schemas; the few hot messages are packed by hand.

Never looks inside a record batch.
"""
