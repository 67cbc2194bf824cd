"""The other side of benches/lists.rs: Faiss on one thread, by the same centroids and codebooks.

Reads files of f32 in the folder that is its argument; answers each line with seconds of processor time and a figure, or an error.
"""
import sys
import time

try:
    import faiss
    import numpy as np
except ImportError as error:
    print("missing", error, flush=True)
    sys.exit(0)

folder, dimensions, k = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
faiss.omp_set_num_threads(1)


def numbers(name, width):
    return np.fromfile(f"{folder}/{name}.f32", dtype="f4").reshape(-1, width)


rows, queries = numbers("rows", dimensions), numbers("queries", dimensions)
truth = np.fromfile(f"{folder}/truth.u32", dtype="u4").reshape(len(queries), -1)
made, kept = {}, []


def timed(work):
    before = time.process_time()
    result = work()
    return time.process_time() - before, result


def recall(ids):
    return sum(len(set(a[:k]) & set(b[:k])) for a, b in zip(ids.tolist(), truth.tolist())) / (k * len(truth))


def quantizer():
    centroids = numbers("centroids", dimensions)
    flat = faiss.IndexFlatL2(dimensions)
    flat.add(centroids)
    return flat, len(centroids)


def index(what, parts):
    if (what, parts) in made:
        return made[what, parts]
    if what == "ivf":
        flat, count = quantizer()
        found = faiss.IndexIVFFlat(flat, dimensions, count)
        # The index does not own its quantizer.
        kept.append(flat)
    elif what in ("product", "encode"):
        found = faiss.IndexPQ(dimensions, parts, 8)
        faiss.copy_array_to_vector(numbers(f"codebook8-{parts}", 1).ravel(), found.pq.centroids)
    elif what == "fast":
        found = faiss.IndexPQFastScan(dimensions, parts, 4)
        faiss.copy_array_to_vector(numbers(f"codebook4-{parts}", 1).ravel(), found.pq.centroids)
    else:
        found = faiss.IndexFlatL2(dimensions)
    found.is_trained = True
    if what != "encode":
        found.add(rows)
    made[what, parts] = found
    return found


print("name", "faiss", faiss.__version__, faiss.get_compile_options().strip(), flush=True)
for line in sys.stdin:
    what, *values = line.split()
    values = [int(value) for value in values]
    try:
        if what == "kmeans":
            start = numbers("start", dimensions)
            kmeans = faiss.Kmeans(dimensions, len(start), niter=values[0], max_points_per_centroid=10**9)
            seconds, _ = timed(lambda: kmeans.train(rows, init_centroids=start))
            distances, _ = kmeans.index.search(rows, 1)
            figure = float(distances.sum(dtype="f8"))
        elif what == "assign":
            flat, _ = quantizer()
            seconds, _ = timed(lambda: flat.search(rows, 1))
            figure = 0.0
        elif what == "encode":
            found = index(what, values[0])
            seconds, _ = timed(lambda: found.sa_encode(rows))
            figure = 0.0
        elif what == "graph":
            seconds, _ = timed(lambda: index("flat", 0).search(rows, k + 1))
            figure = 1.0
        else:
            found = index(what, values[0])
            if what == "ivf":
                found.nprobe = values[1]
            seconds, (_, ids) = timed(lambda: found.search(queries, k))
            figure = recall(ids)
        print(seconds, figure, flush=True)
    except Exception as error:  # The bench prints what the peer cannot do.
        print("error", repr(error).replace("\n", " "), flush=True)
