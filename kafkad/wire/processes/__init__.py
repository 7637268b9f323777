"""What the processes of one broker say to each other, as bytes."""
