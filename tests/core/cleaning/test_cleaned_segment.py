"""What a pass writes of many batches at once is in the file as it was made."""

from pathlib import Path

import pytest

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.segment_files import SegmentFiles
from kafkad.core.cleaning.cleaned_segment import CleanedSegment
from kafkad.core.cleaning.rewriting import RewrittenBatches
from kafkad.core.log.segments.layout import CLEANED, LOG, file_name
from kafkad.core.log.settings import LogConfig


@pytest.mark.parametrize("batches", [1, 1024, 5000])
def test_any_number_of_batches_is_written_at_once(tmp_path: Path, batches: int) -> None:
    cache = FileCache(4)
    segment = CleanedSegment(SegmentFiles(tmp_path, cache), LogConfig(), 0)
    pieces: list[bytes | memoryview] = [number.to_bytes(4, "big") * (number % 7 + 1) for number in range(batches)]
    sizes = [len(piece) for piece in pieces]
    offsets = list(range(batches))
    for _ in range(2):
        segment.append(RewrittenBatches(pieces, sizes, offsets, offsets, batches))
    assert segment.size == 2 * sum(sizes)
    assert (tmp_path / file_name(0, LOG, CLEANED)).read_bytes() == 2 * b"".join(pieces)
    cache.close_all()
