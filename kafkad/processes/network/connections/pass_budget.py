"""How much may one connection have done in one loop pass, before the others get their turn?"""

PASS_BYTES = 1 << 20
"""Received."""
REQUESTS_OF_A_PASS = 32
"""Started, of those that came in one piece; a Produce costs less and does not count."""
WORK_OF_A_PASS_BYTES = 8 * 1024
"""Fewer are started, if they or their replies are large."""
TURNS_OF_A_PASS = 8
"""So many connections that have let others go first go on in one pass: newcomers do not wait for all of them."""


def has_had_its_turn(begun: int, worked_bytes: int) -> bool:
    """Whether the `begun`-th request waits for the next pass; `worked_bytes` are of those before it and replies."""
    return begun > REQUESTS_OF_A_PASS or worked_bytes > WORK_OF_A_PASS_BYTES
