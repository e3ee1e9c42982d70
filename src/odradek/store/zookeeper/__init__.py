"""Sessions with a ZooKeeper ensemble.

    stores.py     `zookeeper.connect` and what goes with it; where sessions come from
    security.py   TLS, SASL and ACLs, from the settings
    session.py    one session: what it reads and writes, when it is over
    last_session.py  the session of the process before us, ended when a broker is started again
    link.py       the connection, kept by kazoo; the only module that imports it
    requests.py   the bytes of requests that kazoo has not, or makes slowly
    write.py      `write` over a store that has only `multi`; plan.py says what is written
    watches.py    what is armed, and what was missed while away

kazoo is not installed by default, so nothing is imported here.
"""
