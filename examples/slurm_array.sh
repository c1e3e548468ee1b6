#!/bin/bash
# Many trainings in few tasks of SLURM: `sbatch slurm_array.sh`, and leave. Each task of the array trains a slice of the
# seeds, one on each of its cores. Before its time is over a task is put in the queue again, as it is after a preemption,
# and goes on. `bbrgym report runs/many` shows what has ended so far; sbatch again tries what failed.
#SBATCH --job-name=bbrgym --output=slurm-%A_%a.log --open-mode=append
#SBATCH --array=0-3 --cpus-per-task=4 --mem=8G --time=04:00:00
#SBATCH --requeue --signal=B:USR1@120

seeds=${SEEDS:-5} # of each task
first=$((SLURM_ARRAY_TASK_ID * seeds + 1))

bbrgym train -m "seed=range($first,$((first + seeds)))" hydra/launcher=joblib \
    hydra.launcher.n_jobs="${SLURM_CPUS_PER_TASK:-1}" hydra.sweep.dir=runs/many "${@:-agent=ppo,sac}" &
running=$!

requeue() { # what has been trained is kept
    kill -TERM "$running"
    wait "$running"
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
    exit 0
}
trap requeue USR1
wait "$running"
