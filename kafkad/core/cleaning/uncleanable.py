"""Why is a log not cleaned?"""


class UncleanableLog(Exception):
    """The log can't be cleaned as it is; the message names the file and the byte."""


class PassAbandoned(Exception):
    """Nothing is wrong with the log: its owner has taken the grant back, or its segments are gone."""
