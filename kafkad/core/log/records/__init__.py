"""Record batches: headers, records, checksums, compression, validation of produced batches."""
