#!/bin/bash
#SBATCH --job-name=faultline
#SBATCH --ntasks=64
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=04:00:00
at=tls://$(hostname -i | cut -d ' ' -f 1):8786
export DASK_CONFIG=$PWD/cluster-keys
http="--no-dashboard --dashboard-address 127.0.0.1:0"
.venv/bin/python -I -m dask scheduler --protocol tls --host "$at" $http &
srun sh -c '.venv/bin/python -I -m dask worker "$0" --host "$(hostname -i | cut -d " " -f 1)" --nthreads 1 $1' "$at" "$http" &
.venv/bin/faultline sweep spare-full -o results/spare-full.sqlite --scheduler "$at" --time-limit 10min --memory-limit 3500MB
