"""scikit-learn or george, answering benches/gp.rs line by line.

    python3 gp_peers.py FOLDER DIMENSIONS sklearn|george

The first line printed says who answers, or what is missing. Then each line read is a question, and each line printed its
answer in JSON. Seconds are processor time of the peer's calls alone, on one thread.

FOLDER has x.f64 and new.f64, points row after row, and y.f64, targets. A question is a word and the number of samples, the first of
the files. The covariance is that of benches/gp.rs: a constant times an rbf with a length for each dimension, and white noise.
Derivatives are by the logarithms of constant, lengths and noise.
"""

import json
import os
import resource
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"


def say(**answer):
    print(json.dumps(answer), flush=True)


FOLDER, DIMENSIONS, PEER = sys.argv[1], int(sys.argv[2]), sys.argv[3]
try:
    import numpy as np

    if PEER == "george":
        import george
    else:
        import sklearn
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
except ImportError as error:
    say(missing=PEER, why=str(error))
    sys.exit(0)


def numbers(name, width):
    return np.fromfile(f"{FOLDER}/{name}", dtype="<f8").reshape(-1, width)


X, Y, NEW = numbers("x.f64", DIMENSIONS), numbers("y.f64", 1)[:, 0], numbers("new.f64", DIMENSIONS)
CONSTANT, NOISE, LENGTHS = 1.5, 0.1, [0.9 + 0.1 * d for d in range(DIMENSIONS)]


def timed(work):
    before = time.process_time()
    result = work()
    return time.process_time() - before, result


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class ScikitLearn:
    name = "scikit-learn"

    def __init__(self):
        self.version = sklearn.__version__
        self.fitted = {}

    def model(self, optimizer=None, start=False):
        lengths, constant = ([1.0] * DIMENSIONS, 1.0) if start else (LENGTHS, CONSTANT)
        kernel = ConstantKernel(constant) * RBF(lengths) + WhiteKernel(NOISE)
        return GaussianProcessRegressor(kernel, alpha=0.0, optimizer=optimizer)

    def of(self, count):
        if count not in self.fitted:
            self.fitted = {count: self.model().fit(X[:count], Y[:count])}
        return self.fitted[count]

    def fit(self, count):
        seconds, model = timed(lambda: self.model().fit(X[:count], Y[:count]))
        return seconds, {"lml": model.log_marginal_likelihood_value_}

    def mean(self, count):
        model = self.of(count)
        seconds, means = timed(lambda: model.predict(NEW))
        return seconds, {"means": means.tolist()}

    def deviation(self, count):
        model = self.of(count)
        seconds, (means, deviations) = timed(lambda: model.predict(NEW, return_std=True))
        # scikit-learn counts white noise in the deviation of a prediction.
        return seconds, {"means": means.tolist(), "variances": (deviations**2).tolist()}

    def gradient(self, count):
        model = self.of(count)
        theta = model.kernel_.theta
        seconds, (lml, gradient) = timed(
            lambda: model.log_marginal_likelihood(theta, eval_gradient=True, clone_kernel=False)
        )
        return seconds, {"lml": lml, "gradient": gradient.tolist()}

    def optimise(self, count):
        seconds, model = timed(lambda: self.model("fmin_l_bfgs_b", start=True).fit(X[:count], Y[:count]))
        return seconds, {"lml": model.log_marginal_likelihood_value_}


class George:
    name = "george"

    def __init__(self):
        self.version = george.__version__
        self.fitted = {}

    def model(self):
        kernel = CONSTANT * george.kernels.ExpSquaredKernel(np.square(LENGTHS), ndim=DIMENSIONS)
        return george.GP(kernel, white_noise=np.log(NOISE), fit_white_noise=True)

    def fit(self, count):
        def work():
            model = self.model()
            model.compute(X[:count])
            model._compute_alpha(Y[:count], True)
            return model

        seconds, model = timed(work)
        self.fitted = {count: model}
        return seconds, {"lml": model.log_likelihood(Y[:count])}

    def of(self, count):
        if count not in self.fitted:
            self.fit(count)
        return self.fitted[count]

    def mean(self, count):
        model = self.of(count)
        seconds, means = timed(lambda: model.predict(Y[:count], NEW, return_cov=False))
        return seconds, {"means": means.tolist()}

    def deviation(self, count):
        model = self.of(count)
        seconds, (means, variances) = timed(lambda: model.predict(Y[:count], NEW, return_var=True))
        return seconds, {"means": means.tolist(), "variances": (variances + NOISE).tolist()}

    def gradient(self, count):
        def work():
            model = self.model()
            model.compute(X[:count])
            return model.log_likelihood(Y[:count]), model.grad_log_likelihood(Y[:count])

        seconds, (lml, gradient) = timed(work)
        # Its parameters are the noise, the constant and squared lengths.
        noise, constant, *squared = gradient
        return seconds, {"lml": lml, "gradient": [constant, *(2 * np.array(squared)), noise]}


side = George() if PEER == "george" else ScikitLearn()
say(name=f"{side.name} {side.version}, NumPy {np.__version__}")
for line in sys.stdin:
    what, count = line.split()
    count = int(count)
    try:
        if what == "memory":
            # Of one evaluation with derivatives, beside the data and the libraries: ask a new process.
            before = resident_bytes()
            side.gradient(count)
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            say(bytes=most - before)
            continue
        seconds, answer = getattr(side, what)(count)
        say(seconds=seconds, count=1, **answer)
    except AttributeError as error:
        say(error=str(error))
