"""`spark-submit spark/verify.py` is `kafkad export verify`, for jobs that know only spark-submit."""

import sys

from kafkad.cli.commands.export import export

if __name__ == "__main__":
    export(["verify", *sys.argv[1:]], prog_name="verify.py")
