"""The common rules of group and transaction coordinators: their state changes only by replayed records."""
