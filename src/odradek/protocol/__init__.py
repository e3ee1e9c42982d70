"""The wire: one field table per API (`messages`), compiled into codecs on first use; fast paths where hot."""
