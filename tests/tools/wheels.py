"""Small wheels made by hand: packages of plugins, without a build tool and without an index."""

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

PLUGIN = """
from kafkad.api import hookimpl

class Policy:
    name = "{policy}"

    def plan(self, log, config, now_ms):
        return []

@hookimpl
def kafkad_register_cleanup_policies():
    return [Policy()]
"""


def plugin_wheel(
    folder: Path, name: str, *, version: str = "1.0", requires: Sequence[str] = (), head: str = ""
) -> Path:
    """A package with one module, which is a plugin that registers a cleanup policy of its name."""
    module = name.replace("-", "_")
    text = head + PLUGIN.format(policy=name)
    return write_wheel(folder, name, version, {f"{module}.py": text}, requires, f"[kafkad]\n{name} = {module}\n")


def write_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str],
    requires: Sequence[str] = (),
    entry_points: str = "",
) -> Path:
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    requirements = "".join(f"Requires-Dist: {each}\n" for each in requires)
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requirements}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entry_points,
    }
    record = "".join(f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in contents.items())
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**contents, f"{info}/RECORD": record + f"{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)
    return wheel


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
