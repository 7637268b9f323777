"""Compile Protobuf schemas in text form, which some registries have, with the compiler in grpcio-tools."""

import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from kafkad_lakehouse.export.problems import ExportFailed, NotInstalled

_COMPILER = "grpc_tools"
_TIMEOUT_S = 60


def descriptor_set(texts: Mapping[str, str], main_file: str) -> bytes:
    """The descriptor set of `main_file` and its imports; the keys of `texts` are the names in import statements.

    Raises `ExportFailed` with the first line of the compiler's errors.
    """
    spec = find_spec(_COMPILER)
    if spec is None or spec.origin is None:
        raise NotInstalled("protobuf", "grpcio-tools")
    with TemporaryDirectory(prefix="kafkad-proto-") as name:
        folder = Path(name)
        for file, text in texts.items():
            place = _place(folder, file)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        compiled = folder / "compiled"
        command = [
            *(sys.executable, "-m", f"{_COMPILER}.protoc", f"--proto_path={folder}"),
            *(f"--proto_path={Path(spec.origin).parent / '_proto'}", "--include_imports"),
            *(f"--descriptor_set_out={compiled}", str(folder / main_file)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            output = done.stderr.strip().replace(f"{folder}/", "").splitlines()
            raise ExportFailed(
                f"the registry's Protobuf schema can't be compiled: {output[0] if output else 'no reason'}"
            )
        return compiled.read_bytes()


def _place(folder: Path, name: str) -> Path:
    """The path for a name from the registry, which must be in the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise ExportFailed(f"the registry's Protobuf schema imports {name!r}, which is not a valid file name")
    return folder / path
