"""Message sets of magic 0 and 1, made by kafka-python."""

from collections.abc import Sequence

from kafka.record.legacy_records import LegacyRecordBatchBuilder


def old_messages(
    magic: int, values: Sequence[bytes | None], *, codec: int = LegacyRecordBatchBuilder.CODEC_NONE
) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for offset, value in enumerate(values):
        builder.append(offset, timestamp=1_700_000_000_000 if magic else None, key=None, value=value)
    return bytes(builder.build())
