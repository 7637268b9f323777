"""Replication: the leader's rules about its followers, and a follower's rules about its log.

Pure rules; the worker that owns the log performs them, and fetcher processes carry the requests and responses.
"""
