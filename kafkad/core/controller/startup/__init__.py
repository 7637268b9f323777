"""How a controller starts: its claim, what the store and the directories hold, and the repairs between them."""
