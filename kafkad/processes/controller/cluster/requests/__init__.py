"""What this broker asks of the controller, whoever that is, and what it asks of all while it is the controller."""
