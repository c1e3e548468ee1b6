# SPDX-License-Identifier: GPL-2.0-only
"""A twin's world as a simulation, started as ns3-gym starts one; loads less than `bbrgym serve` does.

usage: python served.py --openGymPort=PORT --simSeed=SEED
"""

import argparse
from contextlib import closing

from bbrgym.envs.tune_env import TuneEnv
from bbrgym.ns3gym.serving import serve

parser = argparse.ArgumentParser()
parser.add_argument("--openGymPort", type=int)
parser.add_argument("--simSeed", type=int)
options = parser.parse_args()
with closing(TuneEnv(world="twin", scenario="steady")) as env:
    serve(env, options.openGymPort, seed=options.simSeed)
