"""An asyncio loop on a virtual clock: it never waits, it only lets time pass when all are idle."""

import asyncio
import selectors


class _Selector(selectors.SelectSelector):
    """Asks the real one without waiting, and tells the loop how long it would have waited."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self.loop.idle_for(timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer; but it stands still for who awaits `rest`."""

    def __init__(self) -> None:
        selector = _Selector()
        selector.loop = self
        self.now_s = 1.0
        self._resting: list[asyncio.Future[None]] = []
        super().__init__(selector)

    def time(self) -> float:
        return self.now_s

    def idle_for(self, timeout_s: float | None) -> None:
        """Wake who waits for this, or let the time pass that nobody has anything to do in."""
        resting, self._resting = self._resting, []
        for future in resting:
            future.set_result(None)
        if not resting:
            if timeout_s is None:
                raise RuntimeError("nobody will ever have anything to do again")
            self.now_s += timeout_s

    async def rest(self) -> None:
        """Wait until nobody has anything to do before time passes."""
        future = self.create_future()
        self._resting.append(future)
        await future

    async def pass_ms(self, duration_ms: int) -> None:
        """Wait while the others live through some milliseconds."""
        future = self.create_future()
        self.call_later(duration_ms / 1000, future.set_result, None)
        await future
