"""Many records at once: where offset, timestamp, key, value and headers of each lie, as columns of numpy.

Needs numpy, which takes a process some 15 MB: only who reads whole logs imports this package, and not before it has to.
One record, or the few of one batch, are read with `core/log/records/record.py`.
"""
