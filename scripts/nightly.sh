#!/bin/bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317,SC2046,SC2086  # parts are called by name, lists are split into words
#
# nightly.sh: the runs that take too long for every change.
#
#   scripts/nightly.sh [part ...]    parts: asan ubsan tsan memcheck kill interrupt fuzz calls
#                             onnx safetensors quantized texts graphs ab rate train peers gpusim
#                             gpukernels mutate ranks
#
# Without a part it runs all and keeps the table, with the commit, in results/nightly.md.  Each
# sanitizer works in build/<part>, a copy of the tree whose objects stay between runs, so that
# ./ridge and the library there are the sanitized ones and the tests are the same as ever.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
root=$PWD
export RIDGE_TEST_LIMIT=${RIDGE_TEST_LIMIT:-21600} # sanitizers and soaks take their time
opt='-O1 -g -fno-omit-frame-pointer'

# Make build/$1 the copy of this tree, built with the flags $2.
build() {
  scripts/copy_tree "build/$1" && make -s -C "build/$1" OPT="$opt" EXTRA="$2" all test-programs
}

# What run_tests is given, as paths in a copy.
programs() { find "build/$1/build/tests" -type f -executable -printf 'build/tests/%f\n' | sort; }
specs() { (cd "build/$1" && ls -d tests/op tests/lua tests/*_spec.lua 2>/dev/null); }
totals() { awk '/ passed, / { p += $1; f += $3 } END { printf "%d passed, %d failed\n", p, f }'; }

# Leaks are looked for in the C tests; LuaJIT and busted are not instrumented and end as they like.
# Signals are left to ridge, which tests what it says when it dies of one.
signals=handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0
signals+=:use_sigaltstack=0
export signals # memcheck.sh runs a program that dies of some
part_asan() {
  build asan '-fsanitize=address' || return 1
  local code=0 preload
  preload=$(cc -print-file-name=libasan.so)
  cd build/asan || return 1
  ASAN_OPTIONS=detect_leaks=1:$signals LSAN_OPTIONS=suppressions=$root/scripts/leaks.supp \
    scripts/run_tests $(cd "$root" && programs asan) || code=1
  LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0:$signals \
    scripts/run_tests $(cd "$root" && specs asan) || code=1
  return $code
}

part_ubsan() {
  build ubsan '-fsanitize=undefined -fno-sanitize-recover=all' || return 1
  UBSAN_OPTIONS=print_stacktrace=1 build/ubsan/scripts/run_tests $(programs ubsan) $(specs ubsan)
}

# Our own threads only: OpenMP has one thread, and libgomp, which is not instrumented, is named in
# scripts/threads.supp.  The address space stays where the sanitizer expects it.
part_tsan() {
  build tsan '-fsanitize=thread' || return 1
  local options=$signals:ignore_noninstrumented_modules=1
  OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1 \
    TSAN_OPTIONS="suppressions=$root/scripts/threads.supp $options" \
    setarch "$(uname -m)" -R build/tsan/scripts/run_tests $(programs tsan)
}

# Two ranks in build/$1, with $2 in their environment: nets in buckets, with and without overlap,
# trainers, checkpoints, faults. A report of a sanitizer is a file. OpenMP has one thread: what is
# left are the threads that compute and that move messages.
ranks_in() {
  local logs code=0 each words wanted got
  logs=$(mktemp -d)
  for each in 'child.lua all @:0' 'norm_child.lua:0' 'sharded_child.lua @:0' \
    'train_child.lua steps @:0' 'train_child.lua spoiled @:0' 'train_child.lua resume @:0' \
    'train_child.lua refused @:0' 'child.lua raise:1' 'child.lua late:5' 'child.lua killed:137'; do
    words=tests/lua/dist/${each%:*} wanted=${each#*:} got=0
    words=${words/@/$logs}
    (cd "build/$1" && env OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1 ${2//LOGS/$logs} \
      setarch "$(uname -m)" -R ./ridge launch -n 2 $words) >"$logs/said" 2>&1 || got=$?
    if [ $got = "$wanted" ] && ! ls "$logs"/report* >/dev/null 2>&1; then
      echo "1 passed, 0 failed: $1, ${each%:*}"
    else
      echo "0 passed, 1 failed: $1, ${each%:*}: status $got, not $wanted"
      cat "$logs"/said "$logs"/report* 2>/dev/null
      rm -f "$logs"/report*
      code=1
    fi
  done
  rm -rf "$logs"
  return $code
}

part_ranks() {
  local code=0 options=log_path=LOGS/report
  build calls '-fsanitize=address,undefined -fno-sanitize-recover=undefined' || return 1
  build tsan '-fsanitize=thread' || return 1
  [ -e build/tsan/build/libridge_mpi.so ] && command -v mpirun >/dev/null || return 77
  ranks_in calls "ASAN_OPTIONS=detect_leaks=0:$options:$signals
    UBSAN_OPTIONS=print_stacktrace=1:$options" || code=1
  grep -v omp_fn scripts/threads.supp >build/ranks.supp # it hides what kernels race with
  options+=:suppressions=$root/build/ranks.supp:$signals:ignore_noninstrumented_modules=1
  ranks_in tsan "TSAN_OPTIONS=$options" || code=1
  return $code
}

part_memcheck() {
  build asan '-fsanitize=address' || return 1
  cd build/asan && scripts/memcheck.sh $(cd "$root" && programs asan)
}

# Sweeps killed in the middle, resumed and compared row by row.
part_kill() {
  [ -x scripts/soak_sweep.sh ] || return 77
  make -s && scripts/soak_sweep.sh
}

# Random texts and keys at the prompt, wrong values to every function, in other orders each.
part_fuzz() {
  local code=0 seed
  make -s || return 1
  for seed in 1 2 3 4 5 6 7 8 9 10; do
    echo "# seed $seed"
    RIDGE_SEED=$seed RIDGE_SOAK=20 scripts/run_tests tests/lua/repl/fuzz_spec.lua \
      tests/lua/hostile_spec.lua || code=1
  done
  return $code
}

# A million random calls of everything public, each result read, under two sanitizers at once.
part_calls() {
  build calls '-fsanitize=address,undefined -fno-sanitize-recover=undefined' || return 1
  local preload seed=$((RANDOM * 32768 + RANDOM)) # the log says which
  preload=$(cc -print-file-name=libasan.so)
  cd build/calls || return 1
  echo "# seed $seed"
  LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:$signals \
    UBSAN_OPTIONS=print_stacktrace=1 RIDGE_SEED=$seed RIDGE_CALLS=1000000 RIDGE_PATIENCE=8 \
    scripts/run_tests tests/lua/hostile_spec.lua
}

# An hour of specs of damaged files, under the same two sanitizers: the seconds, the specs.
damaged() {
  build calls '-fsanitize=address,undefined -fno-sanitize-recover=undefined' || return 1
  local preload seed=$((RANDOM * 32768 + RANDOM)) code=0 # the log says which
  local last=$((SECONDS + $1))
  shift
  preload=$(cc -print-file-name=libasan.so)
  cd build/calls || return 1
  while [ $SECONDS -lt $last ] && [ $code = 0 ]; do
    echo "# seed $seed"
    LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:$signals \
      UBSAN_OPTIONS=print_stacktrace=1 RIDGE_SEED=$seed RIDGE_SOAK=50 \
      scripts/run_tests "$@" || code=1
    seed=$((seed + 1))
  done
  return $code
}

part_onnx() {
  damaged "${RIDGE_ONNX_SECONDS:-3600}" tests/lua/onnx/damaged_spec.lua \
    tests/lua/onnx/damaged_load_spec.lua
}

part_safetensors() {
  damaged "${RIDGE_SAFETENSORS_SECONDS:-3600}" tests/lua/train/damaged_spec.lua
}

# Nets in few bits and with few weights, weights that wait to be read, places of sparse weights.
part_quantized() {
  damaged "${RIDGE_QUANTIZED_SECONDS:-3600}" tests/lua/quant/damaged_spec.lua
}

# Twenty minutes of texts of graphs.
part_texts() {
  damaged "${RIDGE_TEXTS_SECONDS:-1200}" tests/lua/graph_mutated_spec.lua
}

# Two thousand random graphs, checked behind each pass; others each night.
part_graphs() {
  local first=$((RANDOM * 32768 + RANDOM + 1)) # the log says which
  make -s || return 1
  echo "# from $first"
  RIDGE_CHECK=1 RIDGE_RANDOM_GRAPHS=2000 RIDGE_RANDOM_FIRST=$first scripts/run_tests \
    tests/lua/graph_random_spec.lua tests/lua/graph_fold_random_spec.lua
}

# Thousands of presses of Ctrl-C at random moments, in one session.
part_interrupt() {
  make -s && RIDGE_SOAK=300 scripts/run_tests tests/lua/repl/interrupt_spec.lua
}

# Comparisons of identical candidates and of some 5 % apart, while another process loads one core.
part_ab() {
  make -s && ./ridge scripts/ab_trials.lua
}

# What 10,000 trials cost beside what they measure; in memory where the disk is somebody else's.
part_rate() {
  make -s || return 1
  ./ridge scripts/soak_rate.lua || ./ridge scripts/soak_rate.lua 10000 /dev/shm
}

# Training as typed at the prompt leaves nothing behind.
part_train() {
  make -s && ./ridge scripts/soak_train.lua
}

part_peers() {
  [ -e scripts/peers/bench.lua ] && python3 -c 'import torch' 2>/dev/null || return 77
  make -s && ./ridge scripts/peers/bench.lua
}

# Every operation on the simulated GPU, in every order, with products and sums joined as nvcc joins
# them, and under both sanitizers, nothing left out.
part_gpusim() {
  local seed=$((RANDOM * 32768 + RANDOM)) # in its name: the log says which order it was
  command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] || return 77
  make -s test-gpusim-builds build/libridge_gpusimfma.so &&
    scripts/gpu/sim.sh test fwd rev ahead ahead:rev rand:1 rand:2 rand:3 "rand:$seed" fma asan \
      tsan
}

# Registers and spills for every architecture that is built.
part_gpukernels() {
  local arch code=0
  command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] || return 77
  for arch in $(make -s gpu-archs); do make -s check-gpu CHECK_ARCH="$arch" || code=1; done
  return $code
}

# Forty planted mistakes, others each night; more than a tenth that no test notices is a failure.
part_mutate() {
  scripts/mutate --seed "$((RANDOM * 32768 + RANDOM))" --count 40 --remap --keep build/mutate.md
}

parts=("$@")
[ $# -gt 0 ] || parts=(asan ubsan tsan memcheck kill interrupt fuzz calls onnx safetensors
  quantized texts graphs ab rate train peers gpusim gpukernels mutate ranks)
mkdir -p build
rm -f build/mutate.md
failed=0 table=
for part in "${parts[@]}"; do
  declare -F "part_$part" >/dev/null || { echo "nightly: no part \"$part\"" >&2; exit 2; }
  echo "# nightly: $part"
  start=$SECONDS
  (part_"$part") 2>&1 | tee "build/nightly-$part.log"
  code=$?
  case $code in
    0) result=passed ;;
    77) result='not run: what it needs is not here' ;;
    *) result=FAILED failed=1 ;;
  esac
  counts=$(totals <"build/nightly-$part.log")
  [ "$counts" != '0 passed, 0 failed' ] || counts=
  table+="| $part | $result | $counts | $((SECONDS - start)) s |"$'\n'
done

{
  echo '# The last nightly run'
  echo
  echo "Commit $(git rev-parse --short=12 HEAD)$(git diff --quiet HEAD || echo ' with changes')," \
    "$(date -u +%Y-%m-%d), $(nproc) processors."
  echo
  printf '| part | result | tests | time |\n|---|---|---|---|\n%s' "$table"
  [ ! -e build/mutate.md ] || { echo && sed '1s/^#/##/' build/mutate.md; }
} >build/nightly.md
if [ $# = 0 ]; then
  cp build/nightly.md results/nightly.md
fi
tail -n +5 build/nightly.md
exit $failed
