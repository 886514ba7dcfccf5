#!/usr/bin/env bash
# Puts a CUDA 13.0 compiler into DIR from wheels (0.7 GB) and prints the path of its nvcc. Does nothing when it is there.
#   cuda_toolkit.sh DIR
set -euo pipefail
dir=${1:?usage: cuda_toolkit.sh DIR}
if nvcc=$(ls "$dir"/lib/python3*/site-packages/nvidia/cu13/bin/nvcc 2>/dev/null) && [ -e "$dir/complete" ]; then
  echo "$nvcc"
  exit 0
fi
python3 -m venv "$dir" >&2
# Every part is pinned: nvvm and crt come as 13.5 otherwise, which a 13.0 driver does not run.
"$dir/bin/pip" install -q --disable-pip-version-check \
  nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 \
  nvidia-cuda-cccl==13.0.85 nvidia-cufft==12.0.0.61 nvidia-nvjitlink==13.0.88 'cmake==3.31.*' >&2
root=$(echo "$dir"/lib/python3*/site-packages/nvidia/cu13)
ln -sfn lib "$root/lib64"  # nvcc and CMake look in lib64
for lib in "$root"/lib/*.so.*; do ln -sfn "$(basename "$lib")" "${lib%%.so*}.so"; done  # and for the unversioned names
touch "$dir/complete"
echo "$root/bin/nvcc"
