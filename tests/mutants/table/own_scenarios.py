"""Scenarios told for one exhibit. They have no outcome written down: they are played without the bug and with it."""

RETURNED_UNSEEN = """
# Dead and back while the controller's watches are late.

cluster
topic t replicas=2,3
produce t-0 a
wait t-0 mark=3:1
hold-watches 1
bounce 2
run 8
release-watches 1
wait t-0 epoch=1
settle
roles t-0
----
"""

BETWEEN_MARK_AND_END = """
# One in sync of the two that are needed: the mark stands still, and a consumer asks from above it on.

cluster
topic t replicas=2,3 min=2
produce t-0 a
kill 3
wait t-0 isr=2
produce t-0 b c acks=1
read t-0 at=2
----
"""

MARK_ONE_FETCH_LATE = """
# The follower has b and has not heard that it is committed; a new epoch begins, and its leader dies at once.

cluster brokers=4
topic t replicas=2,3,4 min=2
produce t-0 a
produce t-0 b
cut 2 > 4
cut 3 > 4
kill 2
wait t-0 leader=3 follows=4
cut 3 4
kill 3
wait t-0 leader=4
log t-0
heal
start 2
start 3
settle
read t-0
----
"""

PRODUCED_TO_THREE = """
# Whether a record is on every member of the ISR is asked when its acknowledgement leaves, and not a moment later.

cluster
topic t replicas=1,2,3 min=2
produce t-0 a
produce t-0 b
produce t-0 c
produce t-0 d
produce t-0 e
produce t-0 f
produce t-0 g
produce t-0 h
produce t-0 i
produce t-0 j
produce t-0 k
produce t-0 l
produce t-0 m
produce t-0 n
produce t-0 o
produce t-0 p
produce t-0 q
produce t-0 r
produce t-0 s
produce t-0 t
----
"""
