#!/bin/bash
# SPDX-License-Identifier: MIT
#
# memcheck.sh: lets the n-th allocation of test programs fail.  A test may then fail, and even go on
# with the tensor it did not get; but nothing may crash inside the core, touch freed memory or hang.
#
#   scripts/memcheck.sh build/tests/test_alloc ...
#
# n is each number to 200 and then grows by a twentieth: what a program asks for the thousandth time
# it mostly asks for at the same places.  It ends when a whole round of n passes every test, which
# means that n is beyond the last allocation.
set -uo pipefail

export scratch
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# One run; prints "n code".
one() {
  local code
  export RIDGE_ALLOC_FAIL=$2 ASAN_OPTIONS=detect_leaks=0:exitcode=99:handle_abort=1
  # this one dies on purpose, by signals that the sanitizer would answer first
  case $1 in */test_crash) ASAN_OPTIONS=detect_leaks=0:${signals:-} ;; esac
  timeout 600 "$1" >"$scratch/$2" 2>&1 </dev/null
  code=$?
  # the innermost frame of ours says whose mistake it is
  if [ $code = 99 ]; then
    case $(grep -m 1 -oE ' (core|lua|tests)/[^ ]*$' "$scratch/$2") in ' tests/'*) code=1 ;; esac
  fi
  [ $code -gt 1 ] || rm "$scratch/$2"
  echo "$2 $code"
}
export -f one

passed=0 failed=0
for program in "$@"; do
  n=1 runs=0
  while :; do
    round=
    for _ in $(seq 20); do
      round+="$n "
      if [ $n -lt 200 ]; then n=$((n + 1)); else n=$((n + n / 20)); fi
    done
    # shellcheck disable=SC2016,SC2086  # the inner shell expands; a list of numbers
    results=$(printf '%s\n' $round | xargs -P "$(nproc)" -I N bash -c 'one "$0" N' "$program")
    runs=$((runs + 20))
    while read -r at code; do
      if [ "$code" -le 1 ]; then
        passed=$((passed + 1))
      else
        failed=$((failed + 1))
        echo "not ok $program, allocation $at: exit code $code"
        grep -m 8 -E 'ERROR|^ +#[0-9]' "$scratch/$at" | sed 's/^/#   /'
      fi
    done <<<"$results"
    grep -qv ' 0$' <<<"$results" || break
    if [ $runs -ge 2000 ]; then
      echo "not ok $program fails for every n"
      failed=$((failed + 1))
      break
    fi
  done
  echo "# $program: $runs runs"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
