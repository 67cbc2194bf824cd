"""PyTorch (cuBLAS, cuSOLVER), answering benches/gpu.rs line by line: products, Cholesky factors and fits of a Gaussian process, without TF32.

    python3 torch_dense.py FOLDER

The first line printed says who answers, or what is missing. Then each line read is a question, and each line printed its answer in JSON:
`gemm N f64|f32`, `cholesky N f64|f32`, and `fit N f64|f32`, from host memory back to it: its answer has the logarithm of the likelihood. FOLDER has
points.f64, two numbers a point, and targets.f64, for the covariance 2 exp(-r^2 / 2) and the noise 0.1.
"""

import json
import math
import sys
import time


def say(**answer):
    print(json.dumps(answer), flush=True)


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
    word, n, kind = line.split()
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
    else:
        points, targets = numbers("points.f64")[: 2 * n].reshape(n, 2), numbers("targets.f64")[:n]
        taken, made = seconds(lambda: fit(points, targets, kind), rounds=2)
        say(seconds=taken, count=1, likelihood=made[1], failed=made[2])
