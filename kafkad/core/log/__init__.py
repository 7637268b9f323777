"""The log of one partition: batches, producers, epochs, indexes, segments, recovery.

Files are accessed through `kafkad.core.ports.SegmentStore`; permission to write is decided elsewhere.
"""
