"""One broker: requests in, answers and effects out (`core`). Pure."""
