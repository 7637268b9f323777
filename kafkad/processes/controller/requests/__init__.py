"""Requests of this broker to the controller, and requests of the controller to all brokers."""
