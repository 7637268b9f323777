import subprocess
import sys

_CODE = """
import sys
import kafkad.api, kafkad.plugin_loading
import kafkad.processes.cleaner, kafkad.processes.worker, kafkad.processes.network, kafkad.processes.reporter
kafkad.plugin_loading.load(enabled=False)
print(sorted({"numpy", "xxhash"} & sys.modules.keys()))
"""


def test_numpy_is_loaded_only_where_something_is_compacted() -> None:
    """It takes 15 MB in each process that has it; what is imported before the fork, all of them have."""
    done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
