"""What the APIs share about partitions: leaders, owners, errors, and questions to owners."""
