"""How options are declared, parsed and validated: types of values, limits, rows of the table."""
