"""Commands about a cluster: who is in it, who has partitions, and who leads them."""
