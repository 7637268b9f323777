"""The shells: wait, translate, call the core, perform its effects. No rule about Kafka lives here."""
