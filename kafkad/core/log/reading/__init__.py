"""Reading a log in processes that do not write it: positions of records, aborted transactions, dumps."""
