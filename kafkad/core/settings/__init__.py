"""Declaration, parsing and validation of options: value types, limits, rows of the settings table."""
