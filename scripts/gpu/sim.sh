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
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive} # several files at a time, as in run_tests

runtime() { ${CXX:-g++} -print-file-name="lib$1.so"; }

# Only kernels are instrumented, so only their leaks could be told apart; LuaJIT keeps what it has.
export ASAN_OPTIONS=detect_leaks=0:handle_segv=0:use_sigaltstack=0
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=ignore_noninstrumented_modules=1

suite=(op grad device layout attention gemm scaled chain)
suite=("${suite[@]/#/tests/op/}")
suite=("${suite[@]/%/_spec.lua}")

# The files of a way.
files_of() {
  case ${1%%[:/]*} in
    test)
      printf '%s\n' "$build"/tests/test_{sim,blas,kept,dnn,fused,divide} \
        tests/sim/dnn_{,plan_,due_}spec.lua
      ;;
    asan) printf '%s\n' "$build/tests/test_simasan" "${suite[@]}" tests/sim/dnn_spec.lua ;;
    tsan) printf '%s\n' "$build/tests/test_simtsan" "${suite[@]}" ;;
    cpu) ls tests/op/*_spec.lua ;;
    fwd | rev | rand | ahead | fma) printf '%s\n' "${suite[@]}" ;;
    *) echo none ;; # run() says so
  esac
}

# Run a file on the simulator of some kind, every n-th of its samples.
simulated() {
  XDG_CACHE_HOME='' RIDGE_GPU=$build/libridge_gpu$1.so RIDGE_TEST_DEVICE=1 RIDGE_TEST_EVERY=$2 \
    scripts/run_tests "$3"
}

# run WAY FILE
run() {
  local way=${1%%/*} every=${1#*/} file=$2 busted
  [ "$every" != "$1" ] || every=1
  [[ $every =~ ^[1-9][0-9]*$ ]] || way=none
  case ${way%%:*}:$file in
    test:tests/*) # sets its own orders
      RIDGE_CUDNN=simulated RIDGE_GPU=$build/libridge_gpusim.so RIDGE_TEST_DEVICE=1 \
        scripts/run_tests "$file"
      ;;
    tsan:*/test_simtsan) setarch "$(uname -m)" -R scripts/run_tests "$file" ;;
    test:* | asan:*/test_simasan) scripts/run_tests "$file" ;;
    fwd:* | rev:* | rand:* | ahead:*)
      # all of the suite says how each kernel is launched, for the table of `make check-gpu`
      [ "$every" != 1 ] || export RG_SIM_LAUNCHES=$build/gpu_launches.tsv
      RG_SIM_ORDER=$way simulated sim "$every" "$file"
      ;;
    cpu:*) # the same suite where it belongs, beside the others: `make test` has two processors
      scripts/run_tests "$file"
      ;;
    fma:*) # products and sums joined, as nvcc joins them
      simulated simfma "$every" "$file"
      ;;
    asan:*)
      # work done at once, so that memory may be watched beyond what the allocator knows as used
      [[ $file != tests/sim/* ]] || export RIDGE_CUDNN=simulated
      RG_SIM_ORDER=now RIDGE_ALLOC_WATCH=1 LD_PRELOAD="$(runtime asan) $(runtime ubsan)" \
        simulated simasan "$every" "$file"
      ;;
    tsan:*) # wants its own address space, and cannot start busted's second process
      busted="setarch $(uname -m) -R env LD_PRELOAD=$(runtime tsan)"
      busted+=" luajit $(command -v busted) --ignore-lua"
      RIDGE_BUSTED=$busted OMP_NUM_THREADS=1 simulated simtsan "$every" "$file"
      ;;
    *)
      echo "sim.sh: no way '$1'; known: test fwd rev rand:SEED ahead ahead:rev fma asan tsan cpu," \
        "each with /N, from 1, for every n-th sample" >&2
      echo '0 passed, 1 failed'
      ;;
  esac
}

# As many files at a time as there are processors, the longest first: whatever the way, op_spec
# takes most, then grad_spec.  The output is that of each way in one piece, in their order.
rm -f "$build/gpu_launches.tsv"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
n=0
for way in "$@"; do
  n=$((n + 1)) m=0
  while read -r file; do
    m=$((m + 1))
    case $file in
      */op_spec.lua) first=1 ;;
      */grad_spec.lua) first=2 ;;
      *) first=3 ;;
    esac
    echo "$first $way $file $logs/$n.$m"
  done < <(files_of "$way")
done | sort -s -k 1,1n >"$logs/queue"
while read -r _ way file log; do
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
  run "$way" "$file" >"$log" 2>&1 </dev/null &
done <"$logs/queue"
wait
units=$(wc -l <"$logs/queue") n=0
rm "$logs/queue"
for way in "$@"; do
  n=$((n + 1))
  echo "# the simulated GPU: $way"
  # a total of each part is not a total of the run
  cat "$logs/$n".* | sed -E 's/^([0-9]+ passed, [0-9]+ failed)$/# \1/'
done
# one that broke off without a total is a failure
cat "$logs"/* | awk -v units="$units" '/^[0-9]+ passed, [0-9]+ failed$/ { p += $1; f += $3; n++ }
  END { if (!n || n < units) f += units > n ? units - n : 1
    printf "%d passed, %d failed\n", p, f; exit f > 0 }'
