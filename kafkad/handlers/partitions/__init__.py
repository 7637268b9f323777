"""What the APIs share about partitions: who leads, who owns, which error, one question to each owner."""
