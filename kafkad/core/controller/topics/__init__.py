"""Topics: names, replica assignment, internal topics, deletion, and the place of a partition on this broker."""
