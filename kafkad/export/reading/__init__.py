"""Record batches of a range of offsets, from segment files or from a broker, and as Arrow batches."""
