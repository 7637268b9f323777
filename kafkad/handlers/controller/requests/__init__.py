"""Code that the APIs of the controller share: modules by API, the view, large requests, timeouts."""
