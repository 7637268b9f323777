"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, static members (KIP-62, KIP-345)."""
