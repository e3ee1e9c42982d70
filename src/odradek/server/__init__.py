"""All the waiting of a broker: sockets, fetchers, disks, the store, signals. It decides nothing."""
