"""One file per API key; `table` lists them. Each opens with what the request does and its version notes."""
