"""The requests between the brokers of a cluster, as plain values; the wire encodes them."""
