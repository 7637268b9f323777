"""What do the checkpoint files of a log directory contain? Rules of `kafkad dump-log`, as in `dump`."""

from kafkad.core.log.reading.dump import Found, Line, Problem, Source
from kafkad.core.log.recovery.checkpoints import CheckpointCorrupt, parse_offsets, parse_partition_metadata


def dump_offsets(checkpoint: Source) -> Found:
    """The entries of an offset checkpoint."""
    try:
        offsets = parse_offsets(checkpoint.content().decode(errors="replace"))
    except CheckpointCorrupt as error:
        yield Problem(message=str(error))
        return
    for partition, offset in offsets.items():
        fields = {"topic": partition.topic, "partition": partition.partition, "offset": offset}
        yield Line(kind="checkpoint", fields=fields)


def dump_partition_metadata(metadata: Source) -> Found:
    """The topic id of `partition.metadata`, as text if the file is intact."""
    text = metadata.content().decode(errors="replace")
    try:
        parse_partition_metadata(text)
    except CheckpointCorrupt as error:
        yield Problem(message=str(error))
    else:
        yield from dump_text(metadata)


def dump_text(file: Source) -> Found:
    """All non-empty lines."""
    for line in file.content().decode(errors="replace").splitlines():
        if line.strip():
            yield Line(kind="text", fields={"text": line})
