"""What options mean for a broker, a topic, a group; and what a topic inherits."""
