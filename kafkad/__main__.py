"""`python -m kafkad`: the command line without an installed script."""

from kafkad.cli import main

if __name__ == "__main__":
    # The name under which people know it, also for shell completion: the package's command comes this way.
    main(prog_name="kafkad")
