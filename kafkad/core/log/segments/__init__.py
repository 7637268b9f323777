"""Segments, their files and their indexes: appending a batch, finding an offset, removing segments."""
