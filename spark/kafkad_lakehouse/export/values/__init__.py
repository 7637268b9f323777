"""Parse values into typed columns: JSON, Avro, Protobuf, by a schema file or a schema registry (decision 064)."""
