"""Problems for CTC losses."""

from __future__ import annotations

import numpy as np
from ctc_oracle import ctc, fits, softmax
from harness import Case, problem

from pycudnn import cudnn


class CTC:
    """Scores of random sequences with random labels, some of which no alignment fits."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.dtype = case.choose("float32", "float64")
        steps, batch, symbols = case.integer(2, 12), case.integer(1, 5), case.integer(2, 40)
        self.mode = case.choose(*cudnn.CTCGradMode)
        self.times = [int(t) for t in case.rng.integers(1, steps + 1, batch)]
        self.labels = [
            tuple(int(s) for s in case.rng.integers(1, symbols, case.rng.integers(1, time + 1)))
            for time in self.times
        ]
        shape = (steps, batch, symbols)
        layout = case.choose("packed", "gaps")
        self.scores = case.tensor(shape, self.dtype, layout=layout, low=-3.0, high=3.0)
        self.gradients = case.operand(self.scores.desc, self.dtype, blank=True)
        self.costs = case.tensor((1, batch), self.dtype, layout="packed", blank=True)
        self.loss = cudnn.CTCLossDescriptor(
            self.dtype, gradient_mode=self.mode, max_label_length=max(map(len, self.labels)),
            library=case.library,
        )  # fmt: skip
        flat = [symbol for label in self.labels for symbol in label]
        self.host = (flat, [len(label) for label in self.labels], self.times)

    def check(self) -> None:
        """Costs, and gradients where the library writes them."""
        case, values = self.case, self.scores.values
        costs = np.zeros((1, len(self.labels)))
        expected = case.get(self.gradients.data)  # what is not written stays NaN
        now = np.lib.stride_tricks.as_strided(
            expected,
            values.shape,
            [step * expected.itemsize for step in self.gradients.desc.strides],
        )
        for n, (label, time) in enumerate(zip(self.labels, self.times, strict=True)):
            if fits(label, time):
                costs[0, n], exact = ctc(softmax(values[:time, n]), label)
                case.compare(now[:time, n], exact, self.dtype, 4)
                behind = np.nan_to_num(now[time:, n])
                assert (behind == 0).all(), "gradients behind the end are neither as before nor 0"
            elif self.mode == cudnn.CTCGradMode.SKIP_OOB_GRADIENTS:
                assert np.isnan(now[:, n]).all(), "gradients of a label too long were written"
            else:
                case.compare(now[:, n], np.zeros_like(values[:, n]), self.dtype)
        case.check(self.costs, costs, self.dtype, 4)


@problem("cudnnCTCLoss")
def ctc_loss(case: Case) -> None:
    p, algo = CTC(case), case.choose(*cudnn.CTCLossAlgo)
    descs = p.scores.desc, p.gradients.desc
    size = cudnn.get_ctc_loss_workspace_size(case.handle, *descs, *p.host, algo, p.loss)
    cudnn.ctc_loss(
        case.handle, p.scores.desc, p.scores.data, *p.host, p.costs.data, p.gradients.desc,
        p.gradients.data, algo, p.loss, case.scratch(size),
    )  # fmt: skip
    p.check()


@problem("cudnnCTCLoss_v8")
def ctc_loss_v8(case: Case) -> None:
    p, algo = CTC(case), cudnn.CTCLossAlgo.DETERMINISTIC
    size = cudnn.get_ctc_loss_workspace_size_v8(
        case.handle, algo, p.loss, p.scores.desc, p.gradients.desc
    )
    device = [case.put(np.array(part, np.int32)) for part in p.host]
    cudnn.ctc_loss_v8(
        case.handle, algo, p.loss, p.scores.desc, p.scores.data, *device, p.costs.data,
        p.gradients.desc, p.gradients.data, case.scratch(size),
    )  # fmt: skip
    p.check()
