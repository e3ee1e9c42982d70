"""What keeps acknowledged records: roles, the ISR, the high watermark, truncation, parked requests. Pure."""
