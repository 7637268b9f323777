"""How a controller begins: its claim, what the store and the directories hold, and what is put right between them."""
