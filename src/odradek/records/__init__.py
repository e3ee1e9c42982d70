"""Record batches as bytes (magic 2, KIP-98): header, stamps in place, CRC-32C, codecs, control records."""
