import subprocess
import sys


def test_broker_does_not_load_the_test_tools_that_kio_looks_for() -> None:
    program = (
        "import sys; from kafkad.startup import import_kio_alone; import_kio_alone();"
        "import kio.schema.produce.v9.request; print(sorted({'hypothesis', 'pytest'} & set(sys.modules)));"
        "import hypothesis.strategies"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout == "[]\n"
