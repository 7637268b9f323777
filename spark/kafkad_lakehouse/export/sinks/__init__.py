"""Tables: their state, and commits that add files and set the new end offsets."""
