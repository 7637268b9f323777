"""The configs of brokers, topics and groups, and the defaults that topics inherit."""
