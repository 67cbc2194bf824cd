"""LAPACK's Cholesky factorisation, answering benches/cholesky.rs line by line.

    python3 lapack.py openblas|mkl THREADS

openblas is the library of SciPy, mkl that of PyTorch. The first line printed says who answers, or what is missing. Then each line read
is a question, and each line printed its answer in JSON:

    check N f64|f32     the product of the factor and a vector
    factor N f64|f32    seconds of one factorisation: processor time on one thread, else wall time

Matrix and vector are those of benches/cholesky/matrix.rs.
"""

import json
import os
import sys
import time

LIBRARY, THREADS = sys.argv[1], int(sys.argv[2])
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(THREADS)


def say(**answer):
    print(json.dumps(answer), flush=True)


try:
    import numpy as np

    if LIBRARY == "mkl":
        import torch

        if not torch.backends.mkl.is_available():
            raise ImportError("PyTorch has no MKL")
        torch.set_num_threads(THREADS)
    else:
        import scipy
        from scipy.linalg import lapack
except ImportError as error:
    say(missing=LIBRARY, why=str(error))
    sys.exit(0)

made = {}


def matrix(n, number):
    """The matrix, by columns, with zeros above the diagonal. The last one is kept."""
    if (n, number) not in made:
        made.clear()
        # PyTorch takes rows, and the upper half by rows is the lower one by columns.
        whole = np.zeros((n, n), dtype=number, order="F")
        with np.errstate(over="ignore"):
            for column in range(n):
                rows = np.arange(column, n, dtype=np.uint64)
                mixed = ((rows << np.uint64(32)) | np.uint64(column)) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(11)
                whole[column:, column] = mixed.astype(np.float64) / 2.0**52 - 1.0
                whole[column, column] = n
        made[n, number] = whole
    return made[n, number]


def clock():
    return time.process_time() if THREADS == 1 else time.perf_counter()


def factor(n, number):
    """The factor and the seconds that it took, without the copy of the matrix."""
    work = matrix(n, number).copy(order="F")
    if LIBRARY == "mkl":
        of_rows = torch.from_numpy(work.T)
        before = clock()
        # Its upper factor by rows is the lower one by columns.
        found, info = torch.linalg.cholesky_ex(of_rows, upper=True)
        seconds = clock() - before
        assert int(info) == 0, f"pivot {int(info)}"
        return found.numpy().T, seconds
    potrf = lapack.dpotrf if number is np.float64 else lapack.spotrf
    before = clock()
    found, info = potrf(work, lower=1, clean=0, overwrite_a=1)
    seconds = clock() - before
    assert info == 0, f"pivot {info}"
    return found, seconds


def product(n, number):
    found, _ = factor(n, number)
    weights = 0.5 + (np.arange(n) * 37 % 101) / 101.0
    result = np.zeros(n)
    for column in range(n):
        result[column:] += found[column:, column].astype(np.float64) * weights[column]
    return result


def name():
    if LIBRARY == "mkl":
        return f"MKL of PyTorch {torch.__version__}"
    version = scipy.show_config(mode="dicts")["Build Dependencies"]["lapack"]
    return f"OpenBLAS {version['version']} of SciPy {scipy.__version__}"


say(name=name())
for line in sys.stdin:
    what, n, precision = line.split()
    n, number = int(n), np.float64 if precision == "f64" else np.float32
    if what == "check":
        say(product=product(n, number).tolist())
    else:
        say(seconds=factor(n, number)[1], count=1)
