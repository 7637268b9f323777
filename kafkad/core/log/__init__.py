"""The log of one partition: batches, producers, epochs, indexes, segments, recovery.

Files are reached through `kafkad.core.ports.SegmentStore`; who may write is decided elsewhere.
"""
