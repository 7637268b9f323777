"""`kafkad export`: its options, what they ask for, and what its commands do and print."""
