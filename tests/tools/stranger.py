"""A program as another user: limits of processes and permissions do not bind root.

It may read everything, as the interpreter and the code may be in folders that are root's alone.
"""

import os
from collections.abc import Sequence

STRANGER = None if os.geteuid() else 61_234
"""Under this user id nobody else runs anything. None: the tests are not run by root, whom the limits bind as well."""


def as_stranger(command: Sequence[str]) -> list[str]:
    """`command` as that user."""
    if STRANGER is None:
        return list(command)
    who = (f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups")
    return ["setpriv", *who, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", "--", *command]
