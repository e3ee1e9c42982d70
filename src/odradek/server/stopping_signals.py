"""The signals that stop a process of ours in order."""

import signal


def stopping_signals() -> tuple[signal.Signals, ...]:
    """SIGHUP is none where it is ignored: `nohup` started us, to go on when the terminal is closed."""
    always = (signal.SIGINT, signal.SIGTERM)
    return always if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*always, signal.SIGHUP)
