"""How are the records of a batch compressed, so that every client reads them? (gzip, snappy, lz4, zstd)

Nothing decompresses beyond the limit that the caller names, so a small batch can't take the memory of the
broker. When to compress is decided elsewhere: most batches pass through as they came.
"""

import itertools
import struct
import zlib
from collections.abc import Callable, Iterator

import cramjam
import lz4.frame
import zstandard

from kafkad.core.log.records.batch import Codec

MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024
"""Above what any client makes of a batch of `max.message.bytes`."""
READ_BYTES = 16 * 1024 * 1024
"""Limit of decompressed bytes where the broker reads a batch while other requests wait: about 50 ms of work."""
DEFAULT_LZ4_LEVEL = 9
"""Apache Kafka takes it for lz4's fast compressor, any other level for the thorough one (Lz4BlockOutputStream)."""
DEFAULT_ZSTD_LEVEL = 3

_FAST_LZ4 = 0
_LEAST_THOROUGH_LZ4 = 3
_FIRST_GUESS = 64 * 1024
_FIRST_RATIO = 8
"""Who guesses too low decompresses twice: text in large batches takes a fifth with zstd."""
_GZIP_WINDOW = 31
_GZIP_PIECE = 4096
"""Bytes read in one call: at the end of a member zlib copies those that are left."""
# snappy-java's stream: magic, version, oldest compatible version, then blocks behind an int32 length each
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_INT32 = struct.Struct(">i")
_PIECE = 1024 * 1024
"""Bytes compressed in one call; after each the size is checked against the limit."""
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_CHECKSUM_FLAG = 0x04
_ZSTD_BLOCK = 128 * 1024
"""A block holds no more (RFC 8878, 3.1.1.2.4)."""
_ZSTD_RLE = 1
_MOST_BLOCKS = 4096
"""Beyond it a frame is given to who does not count: small blocks cost as much to count as to decompress."""
_KEPT_CONTEXT = 4 * 1024 * 1024
"""Bytes: a frame may ask for a window of 128 MB, which its context would keep."""
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_NO_SPACE = "did not decompress full frame"
_NO_SPACE_FOR_FRAMES = "failed to write whole buffer"
"""How zstandard and cramjam tell sound frames whose content does not fit the buffer."""
_idle_decompressors: list[zstandard.ZstdDecompressor] = []
_idle_compressors: list[zstandard.ZstdCompressor] = []
"""Of the default level. A context costs as much to make as 16 KB to decompress, and serves one thread at a time."""


class CannotDecompress(Exception):
    """The bytes are not what the codec says, or grow beyond the limit."""


class GrowsTooLarge(CannotDecompress):
    """The decompressed records exceed the limit."""


class StaysTooLarge(Exception):
    """The compressed data would exceed the limit."""


def decompress(codec: int, data: memoryview, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """The records behind `data`, at most `max_bytes` of them; raises `CannotDecompress`."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return _gunzip(data, max_bytes)
        case Codec.SNAPPY:
            return _decompress_snappy(data, max_bytes)
        case Codec.LZ4:
            return _decompress_lz4(data, max_bytes)
        case Codec.ZSTD:
            return _decompress_zstd(data, max_bytes)
    raise CannotDecompress(f"no codec has the number {codec}")


def compress(codec: int, data: bytes, level: int | None = None, max_bytes: int | None = None) -> bytes:
    """`data` as Kafka's own clients frame it; `level` None is Kafka's default.

    Raises `StaysTooLarge`, at most one piece after the output passes `max_bytes`.
    """
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            gzip = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
            return _joined(itertools.chain(map(gzip.compress, _pieces(data)), _at_last(gzip.flush)), max_bytes)
        case Codec.SNAPPY:
            return _joined(_snappy_blocks(data), max_bytes)
        case Codec.LZ4:
            return _joined(_lz4_frame(data, level), max_bytes)
        case Codec.ZSTD:
            if len(data) <= _PIECE and level in (None, DEFAULT_ZSTD_LEVEL):
                return _compress_zstd(data)
            zstd = zstandard.ZstdCompressor(DEFAULT_ZSTD_LEVEL if level is None else level).compressobj()
            return _joined(itertools.chain(map(zstd.compress, _pieces(data)), _at_last(zstd.flush)), max_bytes)
    raise ValueError(f"no codec has the number {codec}")


def _pieces(data: bytes) -> Iterator[bytes]:
    if len(data) <= _PIECE:
        return iter((data,))
    return (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))


def _at_last(finish: Callable[[], bytes]) -> Iterator[bytes]:
    yield finish()


def _lz4_frame(data: bytes, level: int | None) -> Iterator[bytes]:
    """Java's reader refuses blocks that refer to earlier ones."""
    lz4_level = _FAST_LZ4 if level in (None, DEFAULT_LZ4_LEVEL) else max(level, _LEAST_THOROUGH_LZ4)
    if len(data) <= _PIECE:
        yield lz4.frame.compress(data, lz4_level, block_linked=False, store_size=False)
        return
    frame = lz4.frame.LZ4FrameCompressor(compression_level=lz4_level, block_linked=False)
    yield frame.begin()
    for piece in _pieces(data):
        yield frame.compress(piece)
    yield frame.flush()


def _compress_zstd(data: bytes) -> bytes:
    try:
        zstd = _idle_compressors.pop()
    except IndexError:
        zstd = zstandard.ZstdCompressor(DEFAULT_ZSTD_LEVEL)
    packed = zstd.compress(data)
    _idle_compressors.append(zstd)
    return packed


def _joined(parts: Iterator[bytes], max_bytes: int | None) -> bytes:
    whole: list[bytes] = []
    size = 0
    for part in parts:
        whole.append(part)
        size += len(part)
        if max_bytes is not None and size > max_bytes:
            raise StaysTooLarge
    return b"".join(whole)


def _gunzip(data: memoryview, max_bytes: int) -> bytes:
    """All members of a gzip stream: the format allows several one after the other."""
    parts: list[bytes] = []
    room = max_bytes
    position = 0
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW)
        while not member.eof:
            piece = data[position : position + _GZIP_PIECE]
            if not piece:
                raise CannotDecompress("gzip: the stream is cut short")
            try:
                part = member.decompress(piece, room + 1)
            except zlib.error as error:
                raise CannotDecompress(f"gzip: {error}") from error
            room -= len(part)
            if room < 0:
                raise _too_large(max_bytes)
            if part:
                parts.append(part)
            position += len(piece) - len(member.unused_data)
        if position == len(data):
            return b"".join(parts)


def _decompress_lz4(data: memoryview, max_bytes: int) -> bytes:
    """The first frame; what lies behind it is left, as by Apache Kafka."""
    if data[: len(_LZ4_MAGIC)] != _LZ4_MAGIC:
        raise CannotDecompress("lz4: no frame begins here")
    context = lz4.frame.create_decompression_context()
    guess = max(_FIRST_GUESS, _FIRST_RATIO * len(data))
    parts: list[bytes] = []
    room = max_bytes
    position = 0
    while True:
        # A byte more than may come: otherwise a frame that ends at the limit looks like one that goes on.
        size = min(guess, room + 1)
        try:
            part, read, is_end = lz4.frame.decompress_chunk(context, data[position:], max_length=size)
        except RuntimeError as error:
            raise CannotDecompress(f"lz4: {error}") from error
        room -= len(part)
        if room < 0:
            raise _too_large(max_bytes)
        parts.append(part)
        position += read
        if is_end:
            return b"".join(parts)
        if len(part) < size:
            raise CannotDecompress("lz4: the frame is cut short")


def _decompress_zstd(data: memoryview, max_bytes: int) -> bytes:
    most = _most_of_one_frame(data)
    if most is None:
        return _decompress_zstd_frames(data, max_bytes)
    try:
        zstd = _idle_decompressors.pop()
    except IndexError:
        zstd = zstandard.ZstdDecompressor()
    try:
        return _decompress_zstd_frame(zstd, data, most, max_bytes)
    except zstandard.ZstdError as error:
        raise CannotDecompress(f"zstd: {error}") from error
    finally:
        if zstd.memory_size() <= _KEPT_CONTEXT:
            _idle_decompressors.append(zstd)


def _decompress_zstd_frame(zstd: zstandard.ZstdDecompressor, data: memoryview, most: int, max_bytes: int) -> bytes:
    """Try a larger buffer where the frame does not say how large its content is, as those of Java do not."""
    if zstandard.frame_content_size(data) > max_bytes:
        raise _too_large(max_bytes)
    size = min(most, max_bytes, max(_FIRST_GUESS, _FIRST_RATIO * len(data)))
    while True:
        try:
            return zstd.decompress(data, max_output_size=size)
        except zstandard.ZstdError as error:
            if _NO_SPACE not in str(error) or size == most:
                raise
        if size == max_bytes:
            raise _too_large(max_bytes)
        size = min(most, max_bytes)


def _most_of_one_frame(data: memoryview) -> int | None:
    """How many bytes the frame may hold at most (RFC 8878).

    None unless `data` is one whole frame and nothing else, and a plain one. Of a frame that says it is empty nobody
    would look at the blocks.
    """
    if data[: len(_ZSTD_MAGIC)] != _ZSTD_MAGIC:
        return None
    try:
        position: int = zstandard.frame_header_size(data)
        if zstandard.frame_content_size(data) == 0:
            return None
    except zstandard.ZstdError:
        return None
    trailer = 4 if data[len(_ZSTD_MAGIC)] & _ZSTD_CHECKSUM_FLAG else 0
    most = 0
    is_last = False
    while not is_last:
        header = data[position : position + 3]
        if len(header) < 3 or most == _MOST_BLOCKS * _ZSTD_BLOCK:
            return None
        fields = header[0] | header[1] << 8 | header[2] << 16
        is_last = bool(fields & 1)
        position += 3 + (1 if fields >> 1 & 3 == _ZSTD_RLE else fields >> 3)
        most += _ZSTD_BLOCK
    return most if position + trailer == len(data) else None


def _decompress_zstd_frames(data: memoryview, max_bytes: int) -> bytes:
    """Several frames are one stream. Larger buffers are tried: a frame need not say how large its content is."""
    size = min(max_bytes, max(_FIRST_GUESS, _FIRST_RATIO * len(data)))
    while True:
        out = bytearray(size)
        try:
            written = cramjam.zstd.decompress_into(data, out)
        except cramjam.DecompressionError as error:
            if _NO_SPACE_FOR_FRAMES not in str(error):
                raise CannotDecompress(f"zstd: {error}") from error
            if size >= max_bytes:
                raise _too_large(max_bytes) from error
            size = min(max_bytes, 4 * size)
            continue
        return bytes(memoryview(out)[:written])


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytes:
    """Java frames snappy in blocks, librdkafka and others write one bare block."""
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(data, max_bytes, max_bytes)
    parts: list[bytes] = []
    room = max_bytes
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if len(data) - position < _INT32.size:
            raise CannotDecompress("snappy: a block length is cut short")
        length: int = _INT32.unpack_from(data, position)[0]
        position += _INT32.size
        if length < 0 or length > len(data) - position:
            raise CannotDecompress(f"snappy: a block has {length} bytes, {len(data) - position} are left")
        part = _decompress_snappy_block(data[position : position + length], room, max_bytes)
        room -= len(part)
        parts.append(part)
        position += length
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, room: int, max_bytes: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(block) > room:
            raise _too_large(max_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CannotDecompress(str(error)) from error


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    yield _XERIAL_HEADER
    view = memoryview(data)
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        yield _INT32.pack(len(block)) + block


def _too_large(max_bytes: int) -> GrowsTooLarge:
    return GrowsTooLarge(f"the records take more than the {max_bytes} bytes that are read")
