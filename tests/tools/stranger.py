"""A program as another user: limits of processes and permissions do not bind root.

It may read everything, as the interpreter and the code may be in folders that are root's alone.
"""

import os
from collections.abc import Sequence

STRANGER = None if os.geteuid() else 60_000 + os.getpid() % 5_000
"""Under this user id nobody else runs anything, tests in another process neither: what they run would count as well.
None: the tests are not run by root, whom the limits bind, too.
"""


def as_stranger(command: Sequence[str]) -> list[str]:
    """`command` as that user."""
    if STRANGER is None:
        return list(command)
    who = (f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups")
    return ["setpriv", *who, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", "--", *command]
