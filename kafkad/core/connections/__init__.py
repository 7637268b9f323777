"""Rules about connections and their peers: addresses, and log lines about misbehaving peers."""
