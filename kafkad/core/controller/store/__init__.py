"""What the controller keeps in the coordination store: Apache Kafka's paths and JSON, read and written."""
