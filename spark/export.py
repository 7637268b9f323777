"""`spark-submit spark/export.py`: `kafkad export run` with its tasks in Spark.

The options are the same; `--conf-file` reads them from a TOML file. See README.md in this folder.
"""

import sys

from kafkad_lakehouse.cli.export import export

if __name__ == "__main__":
    export(["run", "--engine", "spark", *sys.argv[1:]], prog_name="export.py")
