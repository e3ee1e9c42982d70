"""Pictures and pages from values: SVG and HTML as text. Nothing here reads, writes or loads anything."""
