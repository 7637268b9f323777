"""Record batches and what is in them: headers, records, checksums, compression, validation of what clients send."""
