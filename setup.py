"""What of kafkad is compiled, by mypyc, when `KAFKAD_COMPILE=1` says so. The rule is [native] of setup.cfg.

Everything else about the package is in setup.cfg. `make native` and the build of the wheel come here.
"""

import json
import os
import runpy
import shutil
import sys
import sysconfig
from configparser import ConfigParser
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import ClassVar

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
# Without importing kafkad, which would be compiled while it is in use.
NATIVE = runpy.run_path(str(HERE / "kafkad" / "native.py"))
RECORD = NATIVE["RECORD"]
OBJECTS = "build/native"
"""Where mypyc keeps what it made: the C code, and what it knows of the types."""


def modules_of_groups() -> dict[str, list[str]]:
    """Each module is of the innermost folder that is named, unless it is to be interpreted."""
    parser = ConfigParser()
    parser.read(HERE / "setup.cfg")
    found: dict[str, list[str]] = {folder: [] for folder in parser["native"]["compiled"].split()}
    interpreted = parser["native"]["interpreted"].split()
    for path in sorted((HERE / "kafkad").rglob("*.py")):
        file = path.relative_to(HERE).as_posix()
        module = file.removesuffix(".py").replace("/", ".")
        folders = [folder for folder in found if module.startswith(f"{folder}.")]
        if folders and path.name != "__init__.py" and module not in interpreted:
            found[max(folders, key=len)].append(file)
    return found


def extensions(groups: dict[str, list[str]]) -> list[Extension]:
    """One library for each group, and for each module a small one by which Python finds it."""
    from mypyc.build import mypycify  # noqa: PLC0415 - only where something is compiled

    files = [file for group in groups.values() for file in group]
    # What mypyc remembers of a group that it need not translate again is sometimes wrong: the C compiler is spared
    # what has not changed, and that is most of the time.
    shutil.rmtree(f"{OBJECTS}/mypy", ignore_errors=True)
    said = StringIO()
    try:
        # Remarks about what could be faster; the errors of the same stream end the process.
        with redirect_stdout(said):
            made: list[Extension] = mypycify(
                ["--config-file=setup.cfg", f"--cache-dir={OBJECTS}/mypy", *files],
                separate=[(group, folder) for folder, group in groups.items()],
                # As fast as with 3 where it was measured, and sooner done.
                opt_level="1",
                debug_level="0",
                target_dir=OBJECTS,
            )
    except SystemExit:
        print(said.getvalue(), file=sys.stderr)
        raise
    return made


class Build(build_ext):
    """In a checkout, it notes of what the libraries were made: kafkad/native.py compares that."""

    noted: ClassVar[dict[str, list[int]]] = {}
    """Before they were read: what is changed meanwhile is not what was compiled."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.parallel = os.cpu_count()

    def run(self) -> None:
        if self.inplace:
            # Until all is done nothing that is there may be used: no module is ever in this state.
            RECORD.write_text(json.dumps({"setup.py": [0, 0]}))
        self._remove_stale(Path(self.build_lib))
        super().run()
        if self.inplace:
            self._remove_stale(HERE)
            RECORD.write_text(json.dumps(self.noted))

    def _remove_stale(self, folder: Path) -> None:
        """Libraries of modules that are gone or are interpreted now."""
        wanted = {folder / self.get_ext_filename(extension.name) for extension in self.extensions}
        for library in set((folder / "kafkad").rglob("*.so")) - wanted:
            library.unlink()


def is_compiled(states: dict[str, list[int]]) -> bool:
    """Whether everything in the checkout is as it was when it was compiled; `states` are those of the modules."""
    if not RECORD.exists() or json.loads(RECORD.read_text()) != states:
        return False
    # What is interpreted counts, too: the compiler has read its types.
    read = [*(HERE / "kafkad").rglob("*.py"), *(HERE / "packaging" / "native").iterdir(), HERE / "setup.py"]
    at = RECORD.stat().st_mtime_ns
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return all(path.stat().st_mtime_ns < at for path in [*read, HERE / "setup.cfg"]) and all(
        (HERE / file).with_suffix(suffix).exists() for file in states
    )


def setup_compiled() -> None:
    groups = modules_of_groups()
    Build.noted = {file: NATIVE["state_of"](HERE / file) for group in groups.values() for file in group}
    if "--inplace" in sys.argv and is_compiled(Build.noted):
        return
    setup(ext_modules=extensions(groups), cmdclass={"build_ext": Build})


if __name__ == "__main__":
    os.chdir(HERE)
    if os.environ.get("KAFKAD_COMPILE") == "1":
        setup_compiled()
    else:
        setup()
