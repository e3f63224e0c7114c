"""One BLAS thread a task, where each core has a task."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import threadpoolctl
from threadpoolctl import ThreadpoolController


class _OneBlasThread:
    """Counts the tasks inside, so that the limit is set by the first and lifted by the last of a process."""

    def __init__(self) -> None:
        self._lock, self._inside, self._limits = threading.Lock(), 0, None
        self._found: tuple[int, ThreadpoolController] | None = None

    def _controller(self) -> ThreadpoolController:
        """To look for libraries takes 5 ms, as long as a small fit: again only where modules, and so perhaps
        libraries, were imported since."""
        modules = len(sys.modules)
        if self._found is None or self._found[0] != modules:
            self._found = modules, ThreadpoolController()
        return self._found[1]

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                _may_be_set_here()
                self._limits = self._controller().limit(limits=1, user_api="blas")
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    _may_be_set_here()
                    self._limits.restore_original_limits()  # type: ignore[attr-defined]


def _may_be_set_here() -> None:
    """threadpoolctl 3.8 lets one thread alone set OpenBLAS's limit and ignores all others; here any thread may be the
    first inside, or the last."""
    openblas = getattr(threadpoolctl, "OpenBLASController", None)
    if hasattr(openblas, "clear_controlling_thread"):
        openblas.clear_controlling_thread(force=True)  # type: ignore[union-attr]


one_blas_thread = _OneBlasThread()
"""Context for work that runs one task per core: BLAS threads times dask threads would fight over the cores."""
