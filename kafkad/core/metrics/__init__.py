"""What is measured and how is it called? Kafka's metric names, and the snapshot that reporters get."""
