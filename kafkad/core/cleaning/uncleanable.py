"""The reasons why a log is not cleaned."""


class UncleanableLog(Exception):
    """The log can't be cleaned; the message names the file and the byte."""


class PassAbandoned(Exception):
    """The log is intact, but its owner has withdrawn the grant, or its segments were removed."""
