"""Committed offsets: plain and transactional commits, fetches, expiration."""
