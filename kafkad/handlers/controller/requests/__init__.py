"""What the APIs of the controller share: the module that answers, its view, large requests and timeouts."""
