"""What goes through a queue, counted where it happens. Plain numbers: they are on the way of every
message. `history.py` takes them away.
"""


class Traffic:
    def __init__(self) -> None:
        # Since they were last taken: messages that came, were delivered and left.
        self.messages_in = self.deliveries = self.messages_out = 0

    @property
    def traffic(self) -> tuple[int, int, int]:
        return self.messages_in, self.deliveries, self.messages_out

    def take_traffic(self) -> tuple[int, int, int]:
        taken = self.traffic
        self.messages_in = self.deliveries = self.messages_out = 0
        return taken
