"""Code about partitions that several APIs use: leaders, owners, errors, and requests to owners."""
