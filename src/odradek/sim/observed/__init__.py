"""What is seen of a world, for the checkers: read from its brokers, its disks, its store and its wire, and changing nothing."""
