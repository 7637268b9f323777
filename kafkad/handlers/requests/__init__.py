"""What the APIs share about requests: which handler answers, what it may look at, replies that are kept packed."""
