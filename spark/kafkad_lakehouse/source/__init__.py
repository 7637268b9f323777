"""The data source `kafkad` for Spark: options, plans, batches and streams. It reads records as an export does."""
