"""What it costs to bring a topic into a table, beside Spark's own Kafka source."""
