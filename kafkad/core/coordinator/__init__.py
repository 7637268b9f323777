"""What group and transaction coordinators have in common: state that changes by replaying records, and nothing else."""
