"""Observers that never take part: each reads what happened and names what may not have.

`history` holds what clients did and saw, `deliveries` judges it in Jepsen's words (I1-I6); `replicas` judges
snapshots of logs, high watermarks and leadership (I7-I11, and the invariants of hachikuji/kafka-specification by
name). Every checker has hand-made bad histories that it must name exactly: a checker never seen red is no evidence.
"""
