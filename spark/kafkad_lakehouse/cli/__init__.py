"""`kafkad export`: options, requests, commands and output."""
