"""Options of TLS, SASL and authorization."""
