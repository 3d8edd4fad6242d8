"""For every test: no time limits of examples, and signals as in a terminal.

A runner that was started with `&` or nohup ignores SIGINT or SIGHUP, and the processes that tests start and interrupt
would inherit that.
"""

import os
import signal

from hypothesis import HealthCheck, settings

for name in ("COLUMNS", "LINES"):  # set where tests run two at a time: what is printed would be wrapped
    os.environ.pop(name, None)

# An example may take long on a busy machine, and so may the making of some.
settings.register_profile("rltui", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rltui")

for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
