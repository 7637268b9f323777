"""A batch with other header fields and a checksum that is right all the same: what a wrong client sends."""

from kafkad.core.log.records.batch import CRC_START, HEADER_SIZE, compute_crc, pack_header, read_header


def sealed(batch: bytes, **fields: int) -> bytes:
    header = read_header(batch)._replace(**fields)
    changed = bytearray(pack_header(header) + batch[HEADER_SIZE:])
    changed[CRC_START - 4 : CRC_START] = compute_crc(memoryview(changed), 0, len(changed)).to_bytes(4, "big")
    return bytes(changed)
