"""The APIs of group coordinators: membership, committed offsets, administration."""
