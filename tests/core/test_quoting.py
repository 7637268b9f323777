"""What clients have written is quoted at a bounded length."""

from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.errors import MESSAGE_CHARACTERS, ErrorCode, KafkaError
from kafkad.core.quoting import LOGGED_CHARACTERS, QUOTED_CHARACTERS, logged, quoted


def test_names_of_usual_lengths_are_quoted_whole() -> None:
    assert quoted("a" * QUOTED_CHARACTERS) == "a" * QUOTED_CHARACTERS
    assert logged("orders-service") == "orders-service"


def test_a_long_name_is_cut_and_says_how_long_it_was() -> None:
    assert quoted("a" * 32_767) == "a" * QUOTED_CHARACTERS + "... (32767 characters)"
    assert logged("a" * 32_767) == "a" * LOGGED_CHARACTERS + "... (32767 characters)"


@given(st.text(max_size=200))
def test_a_log_line_stays_one_line(text: str) -> None:
    assert logged(text).isprintable()


def test_a_message_of_many_names_is_cut() -> None:
    error = KafkaError(ErrorCode.INVALID_REQUEST, ", ".join(["\N{SNOWMAN}" * 100] * 1_000))
    assert error.message is not None
    assert MESSAGE_CHARACTERS < len(error.message) < MESSAGE_CHARACTERS + 100
    assert len(error.message.encode()) < 2**15
