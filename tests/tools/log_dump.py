"""What does Kafka's own DumpLogSegments find wrong with segment and index files?"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.brokers.java import kafka_tool, tool_command

_FILES_PER_RUN = 200
_TIMEOUT_S = 1_800
# What the tool prints when log and index contradict each other, a checksum fails or a file cannot be read.
_WRONG = (
    "isvalid: false",
    "mismatch",
    "Mismatch",
    "is followed by",
    "out of order",
    "not found",
    "no indexable",
    "Exception",
    "Ignoring unknown file",
    "The following indexed offsets",
    "invalid bytes at the end",
)
# With --deep-iteration the tool says this of every file whose first offset is not 0, whoever wrote it.
_BEFORE_THE_FIRST = "  -1 is followed by "


def log_rate_limit(files: Sequence[Path]) -> list[str]:
    """The lines in which the tool complains about any of the files; none is what is hoped for."""
    found = []
    for start in range(0, len(files), _FILES_PER_RUN):
        found += _log_rate_limit(files[start : start + _FILES_PER_RUN])
    return found


def _log_rate_limit(files: Sequence[Path]) -> list[str]:
    command = tool_command("kafka-dump-log", ["--deep-iteration", "--files", ",".join(map(str, files))])
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        dumped, wrong = 0, []
        for line in process.stdout:
            if line.startswith("| offset: "):  # one line a record, millions of them
                continue
            dumped += line.startswith("Dumping ")
            if line.startswith(_BEFORE_THE_FIRST):
                continue
            if any(sign in line for sign in _WRONG):
                wrong.append(line.rstrip())
        code = process.wait(_TIMEOUT_S)
    if code:
        wrong.append(f"exit code {code}")
    if dumped != len(files):
        wrong.append(f"{dumped} of {len(files)} files were read")
    return wrong


def insane_indexes(files: Sequence[Path]) -> list[str]:
    """What `--index-sanity-check` says beyond that each file passed."""
    command = ["--index-sanity-check", "--files", ",".join(map(str, files))]
    done = kafka_tool("kafka-dump-log", *command, timeout=_TIMEOUT_S)
    said = (done.stdout + done.stderr).decode().splitlines()
    expected = {f"{path}{end}" for path in files for end in (" passed sanity check.", " is empty.")}
    return [line for line in said if line not in expected and not line.startswith("Dumping ")]
