"""For all tests: Ctrl-C is heard also where the whole run was started in the background, which ignores it."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # what a test starts would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
