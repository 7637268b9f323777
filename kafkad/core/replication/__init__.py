"""Replicas of a partition on several brokers: what a leader decides about its followers, and a follower about itself.

Pure rules; the worker that owns the log performs them, and fetcher processes carry what followers ask and get.
"""
