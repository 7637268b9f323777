"""What `make test` and `make deb` get or ask for on machines that lack its tools. The machines are folders of
stand-in commands.
"""

import re
import shutil
import subprocess
from pathlib import Path

from bench.brokers.processes import WITHIN_S

CHECKOUT = Path(__file__).parents[2]
SCRIPT = CHECKOUT / "packaging" / "checkout" / "tools.sh"
HAS_GIT = '#!/bin/sh\ncase "$*" in *" git") echo "install ok installed" ;; *) exit 1 ;; esac\n'
HAS_ALL = "#!/bin/sh\necho install ok installed\n"


def run(machine: Path, user: int, dpkg_query: str, *environments: str) -> tuple[int, str, list[str]]:
    """Exit code, what it said, and what apt-get was called with."""
    called = machine / "called"
    called.touch()
    commands = {
        "id": f"#!/bin/sh\necho {user}\n",
        "dpkg-query": dpkg_query,
        "apt-get": f'#!/bin/sh\necho "$*" >>{called}\n',
    }
    for name, script in commands.items():
        (machine / name).write_text(script)
        (machine / name).chmod(0o755)
    for name in ("grep", "tr"):
        known = shutil.which(name)
        assert known is not None
        (machine / name).symlink_to(known)
    done = subprocess.run(
        ["/bin/sh", str(SCRIPT), *environments],
        env={"PATH": str(machine)},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    return done.returncode, done.stderr, called.read_text().splitlines()


def test_who_has_everything_hears_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, 1000, HAS_ALL, "types,lint,interpreted-unit,daemon,interpreted-compat,package") == (0, "", [])


def test_user_is_told_the_command_that_gets_what_is_missing(tmp_path: Path) -> None:
    code, said, called = run(tmp_path, 1000, HAS_GIT, "interpreted-unit")
    assert (code, called) == (1, [])
    assert said == (
        "kafkad: missing packages; install them with: sudo apt-get install --no-install-recommends"
        " default-jdk-headless maven zookeeper\n"
    )


def test_root_gets_what_all_chosen_tests_need_once(tmp_path: Path) -> None:
    code, said, called = run(tmp_path, 0, HAS_GIT, "interpreted-unit,interpreted-compat", "daemon")
    assert (code, called) == (
        0,
        ["install -y -qq --no-install-recommends default-jdk-headless maven zookeeper kcat make openssl procps"],
    )
    assert said.startswith("kafkad: installing default-jdk-headless ")


def test_compiled_tests_need_a_compiler_besides(tmp_path: Path) -> None:
    code, _, called = run(tmp_path, 0, HAS_GIT, "unit,interpreted-unit")
    assert (code, called) == (
        0,
        ["install -y -qq --no-install-recommends default-jdk-headless maven zookeeper gcc libc6-dev libpython3-dev"],
    )


def test_the_debian_package_is_built_with_what_the_same_script_gets(tmp_path: Path) -> None:
    code, _, called = run(tmp_path, 0, HAS_GIT, "deb")
    assert code == 0
    (wanted,) = called
    assert wanted.startswith("install -y -qq --no-install-recommends build-essential debhelper dh-python fakeroot ")
    other = tmp_path / "other"
    other.mkdir()
    packages = set(wanted.split()[4:])
    assert packages < set(run(other, 0, HAS_GIT, "package")[2][0].split())
    build = CHECKOUT / "packaging/debian/build.sh"
    assert '\n"$checkout/packaging/checkout/tools.sh" deb\n' in build.read_text()


def test_types_and_lint_need_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, 0, HAS_GIT, "types,lint") == (0, "", [])


def test_unknown_tests_are_one_line(tmp_path: Path) -> None:
    code, said, called = run(tmp_path, 0, HAS_ALL, "unit,smoke")
    assert (code, called) == (1, [])
    assert said.startswith(
        "kafkad: unknown tests smoke: expected types, lint, unit, daemon, chaos, compat, spark, package"
    )
    assert said.count("\n") == 1


def test_every_environment_of_tox_is_known() -> None:
    found = re.search(r"^env_list = (.*)$", (CHECKOUT / "setup.cfg").read_text(), re.MULTILINE)
    assert found is not None
    for name in found[1].split(", "):
        assert re.search(rf"^ +(\w+ \| )*{name}( \| \w+)*\)", SCRIPT.read_text(), re.MULTILINE), name
