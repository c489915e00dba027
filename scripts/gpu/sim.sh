#!/bin/bash
# SPDX-License-Identifier: MIT
#
# sim.sh: every operation on the simulated GPU, in other orders and under sanitizers.
#
#   scripts/gpu/sim.sh test fwd rev rand:SEED ahead ahead:rev fma asan tsan cpu
#
# The simulator's own tests (test) plant mistakes that have to be found; each sanitizer begins with
# them. With /N behind a way only every n-th sample of the op suite is tried.  `make test-gpusim`
# builds what it needs.  The last line is `N passed, N failed` over all ways.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
export RIDGE_TEST_LIMIT=${RIDGE_TEST_LIMIT:-21600} # the simulator takes its time

runtime() { ${CXX:-g++} -print-file-name="lib$1.so"; }

# Only kernels are instrumented, so only their leaks could be told apart; LuaJIT keeps what it has.
export ASAN_OPTIONS=detect_leaks=0:handle_segv=0:use_sigaltstack=0
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=ignore_noninstrumented_modules=1

suite() {
  XDG_CACHE_HOME= RIDGE_GPU=$build/libridge_gpu$1.so RIDGE_TEST_DEVICE=1 RIDGE_TEST_EVERY=$2 \
    scripts/run_tests tests/op/op_spec.lua tests/op/device_spec.lua \
      tests/op/attention_spec.lua tests/op/gemm_spec.lua tests/op/scaled_spec.lua \
      tests/op/grad_spec.lua
}

run() {
  local way=${1%%/*} every=${1#*/}
  [ "$every" != "$1" ] || every=1
  case ${way%%:*} in
    test) # sets its own orders
      scripts/run_tests "$build"/tests/test_{sim,blas,dnn,fused}
      RIDGE_GPU=$build/libridge_gpusim.so RIDGE_TEST_DEVICE=1 RIDGE_CUDNN=simulated \
        scripts/run_tests tests/sim/dnn_{,plan_,due_}spec.lua
      ;;
    fwd | rev | rand | ahead)
      # all of the suite says how each kernel is launched, for the table of `make check-gpu`
      [ "$every" != 1 ] || export RG_SIM_LAUNCHES=$build/gpu_launches.tsv
      RG_SIM_ORDER=$way suite sim "$every"
      ;;
    cpu) # the same suite where it belongs, beside the others: `make test` has two processors
      scripts/run_tests tests/op
      ;;
    fma) # products and sums joined, as nvcc joins them
      suite simfma "$every"
      ;;
    asan)
      scripts/run_tests "$build/tests/test_simasan"
      # work done at once, so that memory may be watched beyond what the allocator knows as used
      RG_SIM_ORDER=now RIDGE_ALLOC_WATCH=1 LD_PRELOAD="$(runtime asan) $(runtime ubsan)" \
        suite simasan "$every"
      ;;
    tsan) # wants its own address space, and cannot start busted's second process
      setarch "$(uname -m)" -R scripts/run_tests "$build/tests/test_simtsan"
      local busted
      busted="setarch $(uname -m) -R env LD_PRELOAD=$(runtime tsan)"
      busted+=" luajit $(command -v busted) --ignore-lua"
      RIDGE_BUSTED=$busted OMP_NUM_THREADS=1 suite simtsan "$every"
      ;;
    *)
      echo "sim.sh: no way '$1'; known: test fwd rev rand:SEED ahead ahead:rev fma asan tsan cpu," \
        "each with /N for every n-th sample" >&2
      echo '0 passed, 1 failed'
      ;;
  esac
}

# As many ways at a time as there are processors, each one's output in one piece, in their order.
rm -f "$build/gpu_launches.tsv"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
n=0
for way in "$@"; do
  n=$((n + 1))
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
  run "$way" >"$logs/$n" 2>&1 </dev/null &
done
wait
n=0
for way in "$@"; do
  n=$((n + 1))
  echo "# the simulated GPU: $way"
  # a total of each part is not a total of the run
  sed -E 's/^([0-9]+ passed, [0-9]+ failed)$/# \1/' "$logs/$n"
done
cat "$logs"/* | awk '/^[0-9]+ passed, [0-9]+ failed$/ { p += $1; f += $3; runs++ }
  END { if (!runs) f = 1; printf "%d passed, %d failed\n", p, f; exit f > 0 }'
