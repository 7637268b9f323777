"""For `kafkad dump-log`: the kinds of files, and the records of internal topics."""
