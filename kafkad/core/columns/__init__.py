"""Many records at once: positions of offset, timestamp, key, value and headers, as numpy columns.

Requires numpy, which takes a process some 15 MB: only code that reads whole logs imports this package, as late as
possible. Single records, or the few of one batch, are read with `core/log/records/record.py`.
"""
