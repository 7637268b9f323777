"""Rules about connections and the peers behind them: addresses, and what is said of strangers in the log."""
