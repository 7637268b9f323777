"""What the APIs of the controller share: which module answers, what it looks at, large requests and late answers."""
