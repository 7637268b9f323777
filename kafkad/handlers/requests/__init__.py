"""Code about requests that several APIs use: handlers by API, the view of the broker, the metadata cache."""
