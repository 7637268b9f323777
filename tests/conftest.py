"""What all tests share: asserts outside test modules explain themselves too."""

import pytest

pytest.register_assert_rewrite("tests.tools", "tests.compat", "tests.daemon")
