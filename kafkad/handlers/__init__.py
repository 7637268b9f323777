"""One module per API: which versions it serves, and how a request becomes a reply or something that waits."""
