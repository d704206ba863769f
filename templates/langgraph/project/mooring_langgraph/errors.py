class Refused(Exception):
    """A request that gets this status and sentence as its answer."""

    def __init__(self, status, sentence):
        super().__init__(sentence)
        self.status = status
