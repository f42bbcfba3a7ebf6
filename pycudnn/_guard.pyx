"""The outermost layer of the reference library's callbacks: a callable that never raises."""


cdef class Guard:
    """Calls a Python function; an exception that comes out is kept in ``state.pending``.

    An exception that leaves a ctypes callback is printed and lost, and the C caller reads an
    uninitialised status. A try in the Python function itself is not enough: the interpreter
    handles a waiting signal (Ctrl-C) on the function's very first instruction, before the try
    begins. Compiled code has no such instruction, so here nothing escapes.

    `state` is a ``threading.local`` with the attributes ``pending`` and ``last_error``, `failure`
    the C result after an exception.
    """

    cdef object function
    cdef object state
    cdef object failure

    def __init__(self, function, state, failure):
        self.function = function
        self.state = state
        self.failure = failure

    def __call__(self, *arguments):
        try:
            return self.function(*arguments)
        except BaseException as exception:
            self.state.pending = exception
            self.state.last_error = "interrupted by " + type(exception).__name__
            return self.failure
