"""The cost of exporting a topic to a table, compared with Spark's own Kafka source."""
