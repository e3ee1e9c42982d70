"""What a person can do where the machine gives a process no more of something."""

MORE_DESCRIPTORS = "raise the limit of open files (ulimit -n, LimitNOFILE=)"
LARGER_FILES = "raise the limit of a file's size (ulimit -f, LimitFSIZE=), then restart this broker"
MORE_THREADS = (
    "raise the limit of processes (pids.max, ulimit -u, TasksMax=), or give the machine more memory"
)
MORE_MEMORY = "give the machine, or the container, more memory"
