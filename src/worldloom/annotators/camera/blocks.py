"""Normal equations of a clip, whose steps are coupled to near steps only: solved, and inverted, block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

UNKNOWNS = 6


class Blocks:
    """A x = g for `steps` steps of 6 unknowns, where a step is coupled to fewer than `reach` steps after it.

    Blocks of `reach` steps make A block tridiagonal, so that cost grows with the length of the clip, not its cube.
    """

    def __init__(self, steps: int, reach: int) -> None:
        self.steps, self.reach, self.size = steps, reach, UNKNOWNS * reach
        self.count = -(-steps // reach)
        self._pair_K = np.zeros((self.count + 1, 2 * self.size, 2 * self.size))      # block k and its coupling to k + 1
        self._right = np.zeros((self.count + 2) * self.size)

    def add(self, step: int, matrix: np.ndarray, right: np.ndarray) -> None:
        """Add to the equations of the steps from `step` on; the matrix spans at most `reach` + 1 steps.

        What concerns step -1 is left out: it is given.
        """
        if step < 0:
            step, matrix, right = 0, matrix[UNKNOWNS:, UNKNOWNS:], right[UNKNOWNS:]
        block, first = step // self.reach, UNKNOWNS * (step % self.reach)
        self._pair_K[block, first:first + len(matrix), first:first + len(matrix)] += matrix
        self._right[UNKNOWNS * step:UNKNOWNS * step + len(right)] += right

    def add_diagonal(self, diagonal_T6: np.ndarray, right_T6: np.ndarray) -> None:
        """Add to each step's own equations."""
        steps = np.arange(self.steps)
        place = UNKNOWNS * (steps % self.reach)[:, None] + np.arange(UNKNOWNS)
        self._pair_K[(steps // self.reach)[:, None], place, place] += diagonal_T6
        self._right[:UNKNOWNS * self.steps] += right_T6.ravel()

    def add_differences(self, weight_T6: np.ndarray, now_T6: np.ndarray) -> None:
        """Pull each step towards the next one: weight_T6[t] times (x[t] - x[t + 1])^2 / 2, at the values now."""
        steps = np.arange(self.steps - 1)
        weight, pull = weight_T6[:-1], weight_T6[:-1] * (now_T6[1:] - now_T6[:-1])
        here = UNKNOWNS * (steps % self.reach)[:, None] + np.arange(UNKNOWNS)
        block = (steps // self.reach)[:, None]
        for row, column, sign in ((0, 0, 1), (6, 6, 1), (0, 6, -1), (6, 0, -1)):
            self._pair_K[block, here + row, here + column] += sign * weight
        right = self._right[:UNKNOWNS * self.steps].reshape(-1, UNKNOWNS)
        right[:-1] += pull
        right[1:] -= pull

    def solve(self, damping: float) -> np.ndarray:
        """x (T, 6), with the diagonal raised by the share `damping`."""
        right = self._right[:self.count * self.size].reshape(self.count, self.size)
        solved, ahead = [], []
        before = np.zeros((self.size, self.size))
        for k, (own, coupling) in enumerate(self._parts()):
            own[np.diag_indices(self.size)] *= 1 + damping
            rest = right[k]
            if k:
                own = own - before.T @ ahead[-1]
                rest = rest - before.T @ solved[-1]
            both = np.linalg.solve(own, np.column_stack([rest, coupling]))
            solved.append(both[:, 0])
            ahead.append(both[:, 1:])
            before = coupling
        for k in range(self.count - 2, -1, -1):
            solved[k] = solved[k] - ahead[k] @ solved[k + 1]
        return np.concatenate(solved).reshape(-1, UNKNOWNS)[:self.steps]

    def covariances(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the inverse of A: blocks (T, 6, 6) of each step, and (T - 1, 6, 6) of each step with the next."""
        inverses, ahead = [], []
        before = np.zeros((self.size, self.size))
        for k, (own, coupling) in enumerate(self._parts()):
            inverses.append(np.linalg.inv(own - before.T @ ahead[-1] if k else own))
            ahead.append(inverses[-1] @ coupling)
            before = coupling
        whole = np.zeros((self.count, self.size, 2 * self.size))
        whole[-1, :, :self.size] = inverses[-1]
        for k in range(self.count - 2, -1, -1):
            whole[k, :, self.size:] = -ahead[k] @ inverses[k + 1]
            inverses[k] = inverses[k] - whole[k, :, self.size:] @ ahead[k].T
            whole[k, :, :self.size] = inverses[k]
        parts = whole.reshape(self.count, self.reach, UNKNOWNS, 2 * self.reach, UNKNOWNS)
        own, after = (np.stack([parts[:, i, :, i + ahead] for i in range(self.reach)], 1) for ahead in (0, 1))
        shape = (-1, UNKNOWNS, UNKNOWNS)
        return own.reshape(shape)[:self.steps], after.reshape(shape)[:self.steps - 1]

    def _parts(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(own block, coupling to the next) from first to last; steps past the end count as fixed."""
        for k in range(self.count):
            own = self._pair_K[k, :self.size, :self.size].copy()
            if k:
                own += self._pair_K[k - 1, self.size:, self.size:]
            unused = np.arange(max(0, UNKNOWNS * self.steps - k * self.size), self.size)
            own[unused, unused] += 1.0
            yield own, self._pair_K[k, :self.size, self.size:]
