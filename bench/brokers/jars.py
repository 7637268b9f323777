"""Where do the jars of stock Apache Kafka come from?

From Maven, once, into `build/kafka/<version>/libs` of the checkout; KAFKAD_KAFKA_LIBS names another folder.
A machine without Maven or Java makes this fail: tests against the real thing are never skipped.
"""

import fcntl
import os
import subprocess
from pathlib import Path

KAFKA_VERSION = "4.3.0"
_HERE = Path(__file__).parent
_CHECKOUT = _HERE.parents[1]
_RESOLVE_TIMEOUT_S = 600


def kafka_libs() -> Path:
    """The folder with all jars of Apache Kafka, resolved at the first call on a machine."""
    named = os.environ.get("KAFKAD_KAFKA_LIBS")
    if named:
        return Path(named)
    libs = _CHECKOUT / "build" / "kafka" / KAFKA_VERSION / "libs"
    libs.parent.mkdir(parents=True, exist_ok=True)
    # Several test processes may start at once; the others wait for the one that downloads.
    with open(libs.parent / "resolve.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not libs.exists():
            _resolve_into(libs)
    return libs


def _resolve_into(libs: Path) -> None:
    partial = libs.with_name("libs.partial")
    command = ["mvn", "-q", "-B", "-f", str(_HERE / "pom.xml"), f"-Dkafka.version={KAFKA_VERSION}"]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
    subprocess.run(command, check=True, timeout=_RESOLVE_TIMEOUT_S, stdin=subprocess.DEVNULL)
    partial.rename(libs)
