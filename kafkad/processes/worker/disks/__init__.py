"""The disks of a worker's logs: free space, corrupt indexes, read-ahead of recovery."""
