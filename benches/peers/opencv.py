"""OpenCV-contrib's PCT signatures and their distance, answering a bench line by line.

    python3 opencv.py sqfd SIGNATURES
    python3 opencv.py extraction PIXELS POINTS ITERATIONS

The first line printed says who answers, or what is missing. Then each line read is a question, and each line printed
its answer in JSON; the seconds in an answer are processor time around OpenCV's calls alone. One thread.

SIGNATURES: u32 count, u32 length of each, then rows of the weight and 7 coordinates, f32; all little-endian.
PIXELS: u32 count, u32 side, then count x side x side x RGB bytes.
"""

import json
import sys
import time


def say(**answer):
    print(json.dumps(answer), flush=True)


try:
    import cv2
    import numpy as np

    cv2.xfeatures2d.PCTSignatures_create
except (ImportError, AttributeError) as error:
    say(missing="opencv-contrib-python-headless", why=str(error))
    sys.exit(0)

# Weight, x, y, L, a, b, contrast and entropy: after OpenCV's own scaling of L by 1/100, a and b by 1/127, contrast by
# 1/25 and entropy by 1/4 these give the coordinates of Boxwork's default.
WEIGHTS = [1, 8, 8, 1, 2.54, 2.54, 1, 1]
COLUMNS = 8


def read_signatures(path):
    numbers = np.fromfile(path, dtype="<u4")
    count = int(numbers[0])
    lengths = numbers[1 : 1 + count].astype(int)
    rows = numbers[1 + count :].view("<f4").reshape(-1, COLUMNS)
    ends = np.cumsum(lengths)
    return [np.ascontiguousarray(rows[end - length : end]) for end, length in zip(ends, lengths)]


def write_signatures(path, signatures):
    with open(path, "wb") as file:
        np.array([len(signatures)] + [len(rows) for rows in signatures], dtype="<u4").tofile(file)
        for rows in signatures:
            rows.astype("<f4").tofile(file)


def sqfd(path):
    signatures = read_signatures(path)
    query = signatures[0]
    distance = None
    for question in sys.stdin:
        name, *arguments = question.split()
        if name == "alpha":
            # Gaussian over L2; the parameter is alpha.
            distance = cv2.xfeatures2d.PCTSignaturesSQFD_create(
                cv2.xfeatures2d.PCTSignatures_L2, cv2.xfeatures2d.PCTSignatures_GAUSSIAN, float(arguments[0])
            )
            say(alpha=float(arguments[0]))
        elif name == "distances":
            say(distances=[distance.computeQuadraticFormDistance(query, other) for other in signatures])
        elif name == "time":
            compute = distance.computeQuadraticFormDistance
            start = time.thread_time()
            for other in signatures:
                compute(query, other)
            say(seconds=time.thread_time() - start, count=len(signatures))


def extraction(path, points, iterations):
    numbers = np.fromfile(path, dtype="<u4", count=2)
    count, side = int(numbers[0]), int(numbers[1])
    pixels = np.fromfile(path, dtype=np.uint8, offset=8).reshape(count, side, side, 3)
    # OpenCV's images are BGR.
    images = [np.ascontiguousarray(image[:, :, ::-1]) for image in pixels]

    def create():
        # Each extractor draws its own points, seeded by the time.
        extractor = cv2.xfeatures2d.PCTSignatures_create(points, 400, cv2.xfeatures2d.PCTSignatures_NORMAL)
        extractor.setWeights(WEIGHTS)
        extractor.setIterationCount(iterations)
        return extractor

    extractor = create()
    for question in sys.stdin:
        name, *arguments = question.split()
        if name == "signatures":
            extractor = create()
            signatures = [extractor.computeSignature(image) for image in images]
            write_signatures(arguments[0], signatures)
            say(centroids=sum(len(rows) for rows in signatures) / count)
        elif name == "time":
            chosen = images[int(arguments[0]) :: int(arguments[1])]
            start = time.thread_time()
            for image in chosen:
                extractor.computeSignature(image)
            say(seconds=time.thread_time() - start, count=len(chosen))


cv2.setNumThreads(1)
say(name="OpenCV-contrib " + cv2.__version__)
if sys.argv[1] == "sqfd":
    sqfd(sys.argv[2])
else:
    extraction(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
