"""Groups and their committed offsets: events in, records to append and answers out."""
