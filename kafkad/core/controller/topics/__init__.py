"""Topics: names, replica assignment, internal topics, deletion, and where on this broker a partition lives."""
