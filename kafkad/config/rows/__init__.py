"""The broker's options, one module per domain; topic options stand in kafkad/core/log/settings.py.

The tables are kept from formatters: a row has two lines, so that a page of them can be read.
"""
