"""The broker's options, one module per domain; topic options stand in kafkad/core/log/settings.py.

Formatters are switched off for the tables: each row has two lines, so that a page of rows is readable.
"""
