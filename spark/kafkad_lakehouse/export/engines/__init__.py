"""The engines that run tasks: local processes, or Spark."""
