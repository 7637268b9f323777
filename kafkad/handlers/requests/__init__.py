"""What the APIs share about requests: their handlers, the view that handlers read, replies that are cached packed."""
