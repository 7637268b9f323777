"""`python -m bench.lake JSON`: the processes that an export starts import this module once more, so nothing is here."""

if __name__ == "__main__":
    from bench.lake.job import main

    main()
