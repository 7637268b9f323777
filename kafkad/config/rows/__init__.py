"""The broker's options, one module for each domain; topic options are in kafkad/core/log/settings.py.

The tables are not formatted automatically: each row has two lines.
"""
