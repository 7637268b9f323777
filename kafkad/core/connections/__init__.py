"""Rules about connections and their peers: addresses, and limits on repeated log lines."""
