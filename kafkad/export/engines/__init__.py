"""Where tasks run: in processes of this machine, or in Spark."""
