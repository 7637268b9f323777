"""Requests and responses that are read and packed by hand, because they are frequent or large."""
