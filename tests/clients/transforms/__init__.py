"""One loop in three clients: read records, make others of them, write these, and commit what was read, all in one
transaction.

Each file is a program of its own: `python -m tests.clients.transforms.confluent BOOTSTRAP SOURCE TARGET GROUP NAME`. None of
them handles an error. It ends, whoever started it starts it again (systemd, Kubernetes, here `tests/clients/exactly_once.py`),
and three things make that enough:

- records and offsets are one transaction, so a life that ends in the middle has read nothing and written nothing;
- the transactional id is the same in every life: `init_transactions` ends what the life before left open, and fences it;
- so is the group's instance id: the next life has its partitions back at once, and not when a session has timed out.

Who reads the target with `read_committed` sees each record once.
"""
