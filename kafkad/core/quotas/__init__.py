"""How much a client may send and read per second, and how long it has to wait when it did more."""
