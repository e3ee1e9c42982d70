"""The ZooKeeper of the tests, where one can be started; else the reason why not, to skip with."""

from odradek.testing.zookeeper import ZooKeeperEnsemble, ZooKeeperServer, missing

__all__ = ["ZooKeeperEnsemble", "ZooKeeperServer", "missing"]
