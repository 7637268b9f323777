"""Segments, their files and their indexes: where the next batch goes, where an offset is found, what is removed."""
