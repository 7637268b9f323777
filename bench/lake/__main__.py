"""`python -m bench.lake JSON`: the processes that an export starts import this module once more, and so nothing here."""

if __name__ == "__main__":
    from bench.lake.job import main

    main()
