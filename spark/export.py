"""`spark-submit spark/export.py`: what `kafkad export run` does, with the work done in Spark.

The options are the same; `--conf-file` reads them from a TOML file. See README.md beside this file.
"""

import sys

from kafkad.cli.commands.export import export

if __name__ == "__main__":
    export(["run", "--engine", "spark", *sys.argv[1:]], prog_name="export.py")
