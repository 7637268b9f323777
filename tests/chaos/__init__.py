"""A cluster on a real ZooKeeper under load, while its processes die and hang: what was promised to clients holds."""
