"""The broker's options, by subject; topic options are in kafkad/core/log/settings.py.

The tables are not formatted automatically: each row has two lines.
"""
