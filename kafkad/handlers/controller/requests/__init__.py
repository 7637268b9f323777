"""Code that the APIs of the controller share: handlers by API, the view, large requests, timeouts."""
