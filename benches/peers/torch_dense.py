"""PyTorch (cuBLAS, cuSOLVER), answering benches/gpu.rs line by line: products, Cholesky factors and fits of a Gaussian process, without TF32.

    python3 torch_dense.py FOLDER

The first line printed says who answers, or what is missing. Then each line read is a question, and each line printed its answer in JSON:
`gemm N f64|f32`, `cholesky N f64|f32`, and `fit N f64|f32`, from host memory back to it: its answer has the logarithm of the likelihood. `gradient N f64|f32`
adds the derivatives by the logarithms of variance and length, by the inverse from the factor; `predict N f64 M 0|1` are the means of M points, with deviations if
1, in blocks of 8,192, with the factor on the GPU. `exact N f64|f32 M` asks GPyTorch, in its mode of Cholesky factors, for the likelihood with its derivatives and for
the means and deviations of M points (`predict_seconds`). FOLDER has points.f64, two numbers a point, and targets.f64, for the covariance 2 exp(-r^2 / 2) and the noise 0.1.
"""

import json
import math
import sys
import time


def say(**answer):
    # JSON has no NaN, which a derivative may be where a distance is 0.
    numbers = {name: None if isinstance(x, float) and x != x else x for name, x in answer.items()}
    print(json.dumps(numbers), flush=True)


try:
    import torch

    if not torch.cuda.is_available():
        raise ImportError("it finds no GPU")
except ImportError as error:
    say(missing="torch", why=str(error))
    sys.exit(0)

torch.backends.cuda.matmul.allow_tf32 = False
gpu = torch.device("cuda:0")
FOLDER = sys.argv[1]
TYPES = {"f64": torch.float64, "f32": torch.float32}
say(name=f"PyTorch {torch.__version__} on {torch.cuda.get_device_name(0)}")


def numbers(name):
    with open(f"{FOLDER}/{name}", "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.float64)


def covariance(points):
    squares = (points * points).sum(dim=1)
    matrix = torch.addmm(squares[None, :], points, points.T, alpha=-2)
    matrix += squares[:, None]
    matrix.clamp_(min=0).mul_(-0.5).exp_().mul_(2)
    matrix.diagonal().fill_(2.1)
    return matrix


def fit(points, targets, kind):
    matrix = covariance(points.to(gpu).to(kind))
    factor, failed = torch.linalg.cholesky_ex(matrix)
    right = targets.to(gpu).to(kind)
    weights = torch.cholesky_solve(right[:, None], factor)[:, 0]
    logs = factor.diagonal().double().log().sum()
    likelihood = -0.5 * (right.double() @ weights.double()) - logs - len(right) / 2 * math.log(2 * math.pi)
    return weights.cpu(), float(likelihood), int(failed)


def gradient(points, targets, kind):
    points = points.to(gpu).to(kind)
    matrix = covariance(points)
    factor, _ = torch.linalg.cholesky_ex(matrix)
    alpha = torch.cholesky_solve(targets.to(gpu).to(kind)[:, None], factor)[:, 0]
    weights = torch.cholesky_inverse(factor).neg_().addr_(alpha, alpha)
    matrix.diagonal().fill_(2.0)
    weights.mul_(matrix)
    by_variance = 0.5 * weights.sum()
    # k r^2, and r^2 from k itself.
    by_length = 0.5 * weights.mul_(matrix.div_(2).log_().mul_(-2)).sum()
    return float(by_variance), float(by_length)


def predict(points, factor, alpha, new, deviations):
    means, variances = [], []
    for block in new.split(8192):
        squares = (points * points).sum(dim=1)[:, None] + (block * block).sum(dim=1)[None, :]
        between = torch.addmm(squares, points, block.T, alpha=-2)
        between.clamp_(min=0).mul_(-0.5).exp_().mul_(2)
        means.append(between.T @ alpha)
        if deviations:
            solved = torch.linalg.solve_triangular(factor, between, upper=False)
            variances.append(2 - (solved * solved).sum(dim=0))
    return torch.cat(means).cpu(), torch.cat(variances).cpu() if deviations else None


def exact(n, kind, count):
    import gpytorch

    class Model(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x = numbers("points.f64")[: 2 * n].reshape(n, 2).to(gpu).to(kind)
    y = numbers("targets.f64")[:n].to(gpu).to(kind)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(gpu).to(kind)
    model = Model(x, y, likelihood).to(gpu).to(kind)
    likelihood.noise, model.covar_module.outputscale = 0.1, 2.0
    model.covar_module.base_kernel.lengthscale = 1.0
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)

    def step():
        model.zero_grad()
        loss = -marginal(model(x), y)
        loss.backward()
        return float(loss) * -n

    def predictions():
        with torch.no_grad():
            for block in new.split(8192):
                found = model(block)
                found.mean.cpu(), found.variance.cpu()

    modes = gpytorch.settings.fast_computations(False, False, False), gpytorch.settings.max_cholesky_size(10**9)
    with modes[0], modes[1]:
        taken, found = seconds(step, rounds=2)
        model.eval(), likelihood.eval()
        new = math.sqrt(n) / 8 * torch.rand((count, 2), device=gpu, dtype=kind)
        predicted, _ = seconds(predictions, rounds=2)
    return {"seconds": taken, "count": 1, "likelihood": found, "predict_seconds": predicted}


def seconds(work, rounds=3):
    made, best = work(), math.inf
    for _ in range(rounds):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        made = work()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begun)
    return best, made


for line in sys.stdin:
    word, n, kind, *more = line.split()
    n, kind = int(n), TYPES[kind]
    torch.cuda.empty_cache()
    if word == "gemm":
        a, b = (torch.rand((n, n), device=gpu, dtype=kind) for _ in range(2))
        out = torch.empty((n, n), device=gpu, dtype=kind)
        taken, _ = seconds(lambda: torch.mm(a, b.T, out=out))
        say(seconds=taken, count=1)
        del a, b, out
    elif word == "cholesky":
        points = numbers("points.f64")[: 2 * n].reshape(n, 2).to(gpu).to(kind)
        matrix = covariance(points)
        taken, made = seconds(lambda: torch.linalg.cholesky_ex(matrix))
        say(seconds=taken, count=1, failed=int(made[1]))
        del matrix, made
    elif word == "gradient":
        points, targets = numbers("points.f64")[: 2 * n].reshape(n, 2), numbers("targets.f64")[:n]
        taken, made = seconds(lambda: gradient(points, targets, kind), rounds=2)
        say(seconds=taken, count=1, by_variance=made[0], by_length=made[1])
    elif word == "exact":
        try:
            say(**exact(n, kind, int(more[0])))
        except Exception as error:  # Without GPyTorch, or without memory, there is no answer.
            say(error=repr(error))
    elif word == "predict":
        side = math.sqrt(n) / 8
        points, new = (side * torch.rand((rows, 2), device=gpu, dtype=kind) for rows in (n, int(more[0])))
        matrix = covariance(points)
        factor, _ = torch.linalg.cholesky_ex(matrix)
        alpha = torch.cholesky_solve(points.sum(dim=1, keepdim=True), factor)[:, 0]
        del matrix
        taken, _ = seconds(lambda: predict(points, factor, alpha, new, more[1] == "1"), rounds=2)
        say(seconds=taken, count=1)
        del points, new, factor, alpha
    else:
        points, targets = numbers("points.f64")[: 2 * n].reshape(n, 2), numbers("targets.f64")[:n]
        taken, made = seconds(lambda: fit(points, targets, kind), rounds=2)
        say(seconds=taken, count=1, likelihood=made[1], failed=made[2])
