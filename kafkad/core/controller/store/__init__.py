"""The controller's data in the coordination store: Apache Kafka's paths and JSON, read and written."""
