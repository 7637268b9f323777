"""`python -m kafkad`: the command line without an installed script."""

from kafkad.cli import main

if __name__ == "__main__":
    # The name of the installed command, which shell completion requires.
    main(prog_name="kafkad")
