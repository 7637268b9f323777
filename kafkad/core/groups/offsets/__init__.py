"""Committed offsets: commits plain and in transactions, fetches, expiration."""
