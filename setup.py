"""What of kafkad is compiled, by mypyc, when `KAFKAD_COMPILE=1` says so. The rule is [native] of setup.cfg.

The packages are here, too: they are in two folders, and setup.cfg can name only one. Everything else about the
distribution is in setup.cfg. `make native` and the build of the wheel come here.

What was compiled is kept in `build/native/kept`, or in the folder that KAFKAD_KEPT names, and taken from there as long
as all that it was made of has the same content.
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

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
# Without importing kafkad, which would be compiled while it is in use.
NATIVE = runpy.run_path(str(HERE / "kafkad" / "native.py"))
RECORD = NATIVE["RECORD"]
KEPT = runpy.run_path(str(HERE / "packaging" / "native" / "kept.py"))
OBJECTS = "build/native"
"""Where mypyc keeps what it made: the C code, and what it knows of the types."""
BESIDE_THE_BROKER = find_packages(str(HERE / "spark"))
PACKAGES = {
    "packages": [*find_packages(str(HERE), include=["kafkad", "kafkad.*"]), *BESIDE_THE_BROKER],
    "package_dir": {name: f"spark/{name}" for name in BESIDE_THE_BROKER if "." not in name},
}
HARDENING = ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fstack-protector-strong"]
"""As Debian compiles its packages; the same everywhere, so that everything can be compiled once."""


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
    from mypyc.build import include_dir, mypycify  # noqa: PLC0415 - only where something is compiled

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
    # The same text in every folder, and by that the same command of the C compiler: ccache knows it again.
    headers = Path(f"{OBJECTS}/lib-rt")
    shutil.copytree(include_dir(), headers, ignore=shutil.ignore_patterns("*.py", "*.pyc"), dirs_exist_ok=True)
    for extension in made:
        # A list of its own: mypyc gives all of them the same one.
        extension.extra_compile_args = [*extension.extra_compile_args, *HARDENING]
        extension.extra_link_args = [*extension.extra_link_args, "-Wl,-z,relro"]
        extension.include_dirs = [each.replace(include_dir(), str(headers)) for each in extension.include_dirs]
        if "__mypyc" not in extension.name:
            extension.include_dirs.insert(0, "packaging/native/module")
    # The longest first: what is begun last leaves all cores but one idle.
    return sorted(made, key=lambda each: sum(os.path.getsize(source) for source in each.sources), reverse=True)


def folder_kept() -> Path:
    return Path(os.environ.get("KAFKAD_KEPT") or HERE / OBJECTS / "kept")


class Build(build_ext):
    """In a checkout, it notes of what the libraries were made: kafkad/native.py compares that."""

    noted: ClassVar[dict[str, list[int]]] = {}
    """Before they were read: what is changed meanwhile is not what was compiled."""
    digest: ClassVar[str]
    """Of all that; see packaging/native/kept.py."""
    taken: ClassVar[dict[str, Path]] = {}
    """Libraries that need not be made."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.parallel = os.cpu_count()

    def finalize_options(self) -> None:
        super().finalize_options()
        # A virtual environment's own is another one in each, with nothing in it that is read here.
        own = os.path.join(sys.exec_prefix, "include")
        if sys.exec_prefix != sys.base_exec_prefix:
            self.include_dirs = [each for each in self.include_dirs if each != own]

    def build_extension(self, extension: Extension) -> None:
        if extension.name not in self.taken:
            super().build_extension(extension)
            return
        library = Path(self.get_ext_fullpath(extension.name))
        library.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.taken[extension.name], library)

    def run(self) -> None:
        if self.inplace:
            # Until all is done nothing that is there may be used: no module is ever in this state.
            RECORD.write_text(json.dumps({"setup.py": [0, 0]}))
        self._remove_stale(Path(self.build_lib))
        super().run()
        if self.inplace:
            self._remove_stale(HERE)
            RECORD.write_text(json.dumps(self.noted))
        # mypyc goes through sets of names: only with this is it always the same that it makes.
        if not self.taken and os.environ.get("PYTHONHASHSEED") == "0":
            made = {each.name: Path(self.build_lib, self.get_ext_filename(each.name)) for each in self.extensions}
            KEPT["keep"](folder_kept(), self.digest, made)

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
    read = [*(HERE / "kafkad").rglob("*.py"), *(HERE / "packaging" / "native").rglob("*.*"), HERE / "setup.py"]
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
    # Neither the language of warnings nor the folder is in what is compiled: ccache need not tell them apart.
    os.environ.setdefault("CCACHE_SLOPPINESS", "locale")
    os.environ.setdefault("CCACHE_NOHASHDIR", "1")
    Build.digest = KEPT["digest_of"](HERE)
    Build.taken = KEPT["find"](folder_kept(), Build.digest)
    made = [Extension(name, []) for name in Build.taken] or extensions(groups)
    setup(**PACKAGES, ext_modules=made, cmdclass={"build_ext": Build})


if __name__ == "__main__":
    os.chdir(HERE)
    if os.environ.get("KAFKAD_COMPILE") == "1":
        setup_compiled()
    else:
        setup(**PACKAGES)
