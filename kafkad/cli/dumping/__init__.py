"""What `kafkad dump-log` knows of files beyond those of a segment, and of records of the internal topics."""
