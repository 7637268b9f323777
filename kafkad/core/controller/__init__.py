"""The metadata rules of a broker: topics, assignment, configs, producer ids; over a `CoordinationStore`."""
