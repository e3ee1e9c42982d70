"""Real processes under an hour of faults, and hostile input beside it: `make nightly`, and the table it prints."""
