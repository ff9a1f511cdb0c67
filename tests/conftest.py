"""Settings that must hold before NumPy is loaded: one thread per test process; Ctrl-C is heard."""

import os
import signal

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# A shell's background jobs ignore SIGINT, and so would the runs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
