"""A log as processes see it that only read: places of records, aborted transactions, what a dump of the files shows."""
