"""Where are records whose value could not be parsed? In a table of their own, beside that of the others.

It is committed to first. A run that is killed between the two commits is repeated, and leaves out what the table of
dead letters has: everything below its end offset, as each commit goes as far as that of the table which follows it.
"""


def folder_of_dead_letters(out: str) -> str:
    return f"{out.rstrip('/')}__dlq"
