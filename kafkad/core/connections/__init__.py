"""Rules about connections and their peers: addresses, and log lines that are not repeated all the time."""
