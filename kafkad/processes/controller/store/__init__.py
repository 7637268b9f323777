"""The coordination store of a single broker: what happens when it is lost, and the copy against that."""
