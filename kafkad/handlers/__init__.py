"""One module per API: its versions, and how a request becomes a response or a pending operation."""
