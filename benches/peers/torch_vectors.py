"""PyTorch, answering benches/gpu.rs line by line: the nearest rows by a matrix product and topk, in f32 without TF32.

    python3 torch_vectors.py FOLDER DIMENSIONS

The first line printed says who answers, or what is missing. Then each line read is a question, and each line printed its
answer in JSON: `flat K` searches, `topk ROWS LENGTH K` selects, `kmeans CLUSTERS ITERATIONS` clusters the rows, and `graph K`
finds the neighbours of all rows.

FOLDER has rows.f32 and queries.f32, row after row. What the last search found is written to ids.i64.
"""

import array
import json
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

FOLDER, DIMENSIONS = sys.argv[1], int(sys.argv[2])
QUERIES_AT_ONCE = 1024
torch.backends.cuda.matmul.allow_tf32 = False
gpu = torch.device("cuda:0")


def numbers(name):
    with open(f"{FOLDER}/{name}", "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.float32).reshape(-1, DIMENSIONS).to(gpu)


rows, queries = numbers("rows.f32"), numbers("queries.f32")
norms = (rows * rows).sum(dim=1)
say(name=f"PyTorch {torch.__version__} on {torch.cuda.get_device_name(0)}")


def flat(k):
    found = []
    for part in queries.split(QUERIES_AT_ONCE):
        values = torch.addmm(norms[None, :], part, rows.T, alpha=-2)
        found.append(torch.topk(values, k, dim=1, largest=False).indices)
    return torch.cat(found)


def graph(k):
    found = []
    for part in rows.split(QUERIES_AT_ONCE):
        values = torch.addmm(norms[None, :], part, rows.T, alpha=-2)
        found.append(torch.topk(values, k + 1, dim=1, largest=False).indices)
    return torch.cat(found)


ROWS_AT_ONCE = 1 << 17


def kmeans(clusters, iterations):
    centroids = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))[:clusters].to(gpu)].clone()
    for _ in range(iterations):
        squares = (centroids * centroids).sum(dim=1)
        parts = rows.split(ROWS_AT_ONCE)
        nearest = torch.cat([torch.addmm(squares[None, :], part, centroids.T, alpha=-2).argmin(dim=1) for part in parts])
        sums = torch.zeros_like(centroids).index_add_(0, nearest, rows)
        counts = torch.bincount(nearest, minlength=clusters)
        centroids = torch.where(counts[:, None] > 0, sums / counts.clamp(min=1)[:, None], centroids)
    return centroids


def seconds(work):
    work()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    made = work()
    torch.cuda.synchronize()
    return time.perf_counter() - begun, made


for line in sys.stdin:
    word, *rest = line.split()
    if word == "flat":
        taken, ids = seconds(lambda: flat(int(rest[0])))
        with open(f"{FOLDER}/ids.i64", "wb") as file:
            array.array("q", ids.flatten().tolist()).tofile(file)
        say(seconds=taken, count=1)
    elif word == "kmeans":
        taken, _ = seconds(lambda: kmeans(int(rest[0]), int(rest[1])))
        say(seconds=taken, count=1)
    elif word == "graph":
        taken, _ = seconds(lambda: graph(int(rest[0])))
        say(seconds=taken, count=1)
    elif word == "topk":
        count, length, k = map(int, rest)
        values = torch.rand((count, length), device=gpu)
        taken, _ = seconds(lambda: torch.topk(values, k, dim=1, largest=False))
        say(seconds=taken, count=1)
    else:
        say(seconds=0.0, count=1)
