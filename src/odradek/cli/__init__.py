"""`odradek`: one small file a verb; `main` lists them and imports one only to run it."""
