"""What the brokers of a cluster say to each other, as plain values: the bytes are made in the wire."""
