"""Topics named after tests."""

import re
import uuid

LONGEST = 200  # of a name; 249 characters is what a topic may have


def topic_name_for(test: str) -> str:
    """A legal name that says whose topic it is, and that no other topic has."""
    readable = re.sub(r"[^a-zA-Z0-9-]+", "-", test).strip("-")[:LONGEST]
    return f"{readable}-{uuid.uuid4().hex[:8]}"
