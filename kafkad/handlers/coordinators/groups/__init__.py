"""The APIs of group coordinators, one module each: membership, descriptions, committed offsets."""
