"""`python -m kafkad`: the command line without an installed script."""

from kafkad.cli import main

if __name__ == "__main__":
    # The name of the installed command, also for shell completion.
    main(prog_name="kafkad")
