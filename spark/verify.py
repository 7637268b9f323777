"""`spark-submit spark/verify.py` is `kafkad export verify`, for schedulers that only support spark-submit."""

import sys

from kafkad_lakehouse.cli.export import export

if __name__ == "__main__":
    export(["verify", *sys.argv[1:]], prog_name="verify.py")
