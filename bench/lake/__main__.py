"""`python -m bench.lake JSON`. Processes of an export import this module again, so it only calls `main`."""

if __name__ == "__main__":
    from bench.lake.job import main

    main()
