"""Protobuf schemas as text, as some registries have them, through the compiler that comes with grpcio-tools."""

import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from kafkad.export.problems import ExportFailed, NotInstalled

_COMPILER = "grpc_tools"
_TIMEOUT_S = 60


def descriptor_set(texts: Mapping[str, str], wanted: str) -> bytes:
    """The file `wanted` of `texts`, which are by the names that they import each other by, and all that it needs.

    Raises `ExportFailed` with what the compiler says.
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
            *(f"--descriptor_set_out={compiled}", str(folder / wanted)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            said = done.stderr.strip().replace(f"{folder}/", "").splitlines()
            raise ExportFailed(f"the registry's Protobuf schema can't be compiled: {said[0] if said else 'no reason'}")
        return compiled.read_bytes()


def _place(folder: Path, name: str) -> Path:
    """Names come from the registry: none may lie elsewhere."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise ExportFailed(f"the registry's Protobuf schema imports {name!r}, which is no name of a file")
    return folder / path
