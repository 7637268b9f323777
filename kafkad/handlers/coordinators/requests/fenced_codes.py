"""The error code of a fenced producer: versions from before KIP-588 know no PRODUCER_FENCED."""

from kafkad.core.errors import ErrorCode


def code_for(code: ErrorCode, version: int, fenced_from: int) -> ErrorCode:
    """`fenced_from` is the first version of the API whose clients know PRODUCER_FENCED."""
    is_old = version < fenced_from and code is ErrorCode.PRODUCER_FENCED
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_old else code
