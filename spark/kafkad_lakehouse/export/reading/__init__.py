"""Read the record batches of a range of offsets, from segment files or a broker, as Arrow batches."""
