"""Encodes and decodes messages. kio encodes by schema; the frequent messages are packed by hand.

Record batches are never decoded here.
"""
