"""The package bm3d, answering benches/denoise.rs line by line.

    python3 bm3d_denoise.py FOLDER

The first line printed says who answers, or what is missing. Then each line read is a question, and each line printed its
answer in JSON. Seconds are processor time of the call of the package alone, on one thread.

A question is height, width, channels and sigma of the numbers in FOLDER/noisy (f64), and the phases to run: 2, or 1 for grey
pictures. The result is FOLDER/denoised. The package is for noncommercial use: it is called here for comparison only.
"""

import json
import sys
import time


def say(**answer):
    print(json.dumps(answer), flush=True)


try:
    from importlib.metadata import version

    import bm3d
    import numpy as np
except ImportError as error:
    say(missing="bm3d", why=str(error))
    sys.exit(0)

FOLDER = sys.argv[1]
say(name=f"bm3d {version('bm3d')}")

for line in sys.stdin:
    height, width, channels = (int(number) for number in line.split()[:3])
    sigma = float(line.split()[3])
    phases = bm3d.BM3DStages.ALL_STAGES if line.split()[4] == "2" else bm3d.BM3DStages.HARD_THRESHOLDING
    noisy = np.fromfile(f"{FOLDER}/noisy").reshape(height, width, channels)
    begun = time.process_time()
    if channels == 1:
        found = bm3d.bm3d(noisy[:, :, 0], sigma, stage_arg=phases)
    else:
        found = bm3d.bm3d_rgb(noisy, sigma)
    seconds = time.process_time() - begun
    np.asarray(found, dtype=np.float64).tofile(f"{FOLDER}/denoised")
    say(seconds=seconds, count=height * width)
