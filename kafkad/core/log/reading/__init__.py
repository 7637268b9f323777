"""A log as read-only processes see it: positions of records, aborted transactions, dumps of its files."""
