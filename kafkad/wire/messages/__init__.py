"""Requests and responses that are decoded and packed by hand, because they are frequent or large."""
