"""Tables: what they have of a topic, and how files become part of them in one commit with the new end offsets."""
