"""The error code of a fenced producer: PRODUCER_FENCED is new with KIP-588."""

from kafkad.core.errors import ErrorCode


def code_for(code: ErrorCode, version: int, fenced_from: int) -> ErrorCode:
    """`fenced_from` is the first version of the API with PRODUCER_FENCED."""
    is_old = version < fenced_from and code is ErrorCode.PRODUCER_FENCED
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_old else code
