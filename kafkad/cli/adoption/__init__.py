"""What `kafkad adopt` finds out about log directories of Apache Kafka, and how it hands them to a broker."""
