"""`kafkad adopt`: survey log directories of Apache Kafka, and prepare them for a broker."""
