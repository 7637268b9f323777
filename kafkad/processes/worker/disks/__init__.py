"""The disks under the logs of a worker: how much room they have left, and what they have damaged."""
