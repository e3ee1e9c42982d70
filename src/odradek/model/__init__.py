"""Plain frozen values that every other package may use. Imports nothing of ours."""
