"""`spark-submit spark/maintain.py` is `kafkad export maintain`, for schedulers that only support spark-submit."""

import sys

from kafkad_lakehouse.cli.export import export

if __name__ == "__main__":
    export(["maintain", *sys.argv[1:]], prog_name="maintain.py")
