"""The messages between the processes of one broker, as bytes."""
