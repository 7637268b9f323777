"""How a network process reads logs: files, look-ups, and reads ahead of sendfile."""
