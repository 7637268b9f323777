"""How is an option declared, read and limited? Types of values, limits, rows of the table."""
