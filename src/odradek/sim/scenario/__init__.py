"""Scenarios in text, played on the same world as the simulator's seeds.

A file is a list of paragraphs: lines with the reason (`#`), commands, a line `----`, and what came of them. The
outcome is compared; `python -m odradek.sim.scenario --rewrite FILES` writes it anew. Nothing that depends on the
seed is printed, so a scenario must come out the same however the callbacks of the loop are shuffled.

After each command the invariants are looked at, as in a seed; what they say is part of the outcome (`! WeakIsr: ...`).

| command | does, and prints |
|---|---|
| `cluster [brokers=3] [seed=0] [notices=yes] [disks=1] [kept=N] [name=value ...]` | starts brokers, 1 first, so that it is controller; `kept`: requests a controller keeps for one that does not answer |
| `topic NAME replicas=1,2,3[;2,3,1] [name=value ...]` | creates a topic; prints each partition's state |
| `produce P VALUES [acks=all] [to=BROKER] [id=PRODUCER [again=yes]]` | one batch each; prints `value@offset` or the error. `to`: to that broker as if it led, once; `again`: with the last sequence, a retry. The value `k:a` has the key `k`, and `k!a` deletes it |
| `read P [from=BROKER] [at=0]` | prints what a consumer gets up to the high watermark |
| `state P` | prints the stored leader, epoch and ISR |
| `roles P` | prints who believes what: `1 leads in 3`, `2 follows 1 in 3` |
| `log P` | prints each broker's records, log end, high watermark and epochs |
| `topics B` | prints the partitions that Metadata of B names, and who leads them |
| `disks B` | prints the logs in each directory of a broker |
| `controller` | prints who acts as controller, and in which epoch |
| `kill B [power or unmounted]`, `start B`, `bounce B`, `stop B`, `pause B SECONDS`, `hang B SECONDS`, `wipe B`, `expire B` | the lives of brokers; `power` loses what was not synced, in any combination, `power=all-lost` all of it; `unmounted` loses nothing, but nobody can know that |
| `slow-disk B SECONDS` | what blocks that broker, flushes above all, takes so much longer |
| `break-disk B of=P`, `mend-disk B` | the directory of B that holds P fails; mended, B is started again |
| `fails-once B OPERATION ERRNO of=P [name=FILE] [after=0]` | one operation on files of P fails on the disk of B, after so many that work: `rename ENOENT`, `open EMFILE`, `short ENOSPC` |
| `flip B P offset=N` | a bit of the batch that holds N turns on the disk of B |
| `take-disk B of=P`, `give-disk B` | B is started again without that directory in its `log.dirs`; and with it |
| `cut A B`, `cut A > B`, `cut A store`, `heal [...]` | links, both ways or one way; `heal` alone heals everything |
| `lose-file B P NAME` | B is down: a power cut took this file of its log of P |
| `dies-at-write B N` | the N-th write of B to the store from now takes effect, and B is killed before it hears of it |
| `garble B`, `mend B` | somebody writes into the registration of B what nobody can read; and what was there again |
| `lose-answers P`, `hold-watches B`, `release-watches B`, `store down|up` | the store |
| `replay B [P] kind=leader-and-isr|stop|stop-delete leader=L epoch=E isr=... broker-epoch=N controller-epoch=N` | a control request by hand, late or of a zombie |
| `reassign`, `delete`, `config`, `elect`, `send`, ... | what administrators do: `scenario.admin`; clients that do not wait: `scenario.clients` |
| `overhear B`, `repeat B` | what controllers write to B is read by it a second time, late: `scenario.repeating` |
| `withhold`, `let`, `release`, `lag`, ... | single requests and answers between brokers: `scenario.withholding` |
| `consent P` | records may have been lost, and we agreed to that (an unclean election) |
| `run SECONDS` | lets time pass |
| `wait P leader=2 isr=2,3 epoch=1`, `wait controller=2`, `wait P end=B:OFFSET mark=B:OFFSET follows=B` | until it is so, 60 simulated seconds at most; `follows`: B has heard of the stored leader epoch |
| `idle SECONDS` | lets time pass in which nothing is to happen, and says if there is more than fetches that wait |
| `settle` | until everything is at rest; prints `at rest`, or why it is not |
"""

from odradek.sim.scenario.stage import play
from odradek.sim.scenario.text import Wrong, parse

__all__ = ["Wrong", "parse", "play"]
