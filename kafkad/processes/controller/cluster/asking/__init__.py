"""What this broker asks of the controller, whichever broker that is."""
