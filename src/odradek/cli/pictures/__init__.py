"""SVG and HTML drawn by hand: the time line of a partition, the steps of a reassignment."""
