"""The follower: requests to the leader, their responses, and the truncation of its log."""
