"""Names of topics and tables that a test has for itself on a broker which it shares."""

import pytest


def name_of(request: pytest.FixtureRequest) -> str:
    """The name of the test in letters that a topic may have, another one when the test runs once more."""
    attempt = getattr(request.node, "execution_count", 1)
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    return name if attempt == 1 else f"{name}-{attempt}"
