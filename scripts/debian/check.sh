#!/bin/bash
# SPDX-License-Identifier: MIT
#
# check.sh: what is in a folder of packages, judged by lintian, and in an empty Debian put in over
# an older one, used and taken away: afterwards each file is there that was there before, and no
# other.  Then the same by piuparts.  `make check-deb`.
#
#   scripts/debian/check.sh FOLDER      FRESH_BASE, FRESH_WORK: see scripts/fresh-debian
#
# Needs root, debootstrap, lintian and piuparts, and a network that apt reaches.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(cd "$1" && pwd)
base=${FRESH_BASE:-/tmp/fresh-base} work=${FRESH_WORK:-/tmp/fresh-deb}
suite=bookworm stdin=/dev/null
. scripts/empty-debian.sh
for tool in lintian piuparts; do
  command -v $tool >/dev/null || { say "$tool is not installed" >&2; exit 1; }
done
failed=0
fail() { say "$*" >&2; failed=1; }

lintian --allow-root --fail-on error,warning "$folder"/*.changes || fail 'lintian is not content'

# -- a life in an empty Debian ---------------------------------------------------------
copy_of_base
ridge=$(echo "$folder"/ridge_*.deb) doc=$(echo "$folder"/ridge-doc_*.deb)
mkdir "$work/root/packages"
cp "$ridge" "$work/root/packages/ridge.deb"
cp "$doc" "$work/root/packages/ridge-doc.deb"
mpi=()
for each in "$folder"/ridge-mpi_*.deb; do # where ridge was built with Open MPI
  [ ! -e "$each" ] || { mpi=("$each"); cp "$each" "$work/root/packages/ridge-mpi.deb"; }
done
# an older one has a file that this one has not
old=$(mktemp -d)
dpkg-deb -R "$ridge" "$old"
sed -i 's/^Version: .*/Version: 0.0.1/' "$old/DEBIAN/control"
mkdir "$old/usr/share/ridge/gone"
echo old >"$old/usr/share/ridge/gone/old"
dpkg-deb --root-owner-group -b "$old" "$work/root/packages/older.deb" >/dev/null
rm -rf "$old"

cat >"$work/root/life.sh" <<'END'
set -e
quiet() { "$@" >/root/log 2>&1 || { tail -n 20 /root/log; exit 1; }; }
# /run is empty after a start; /var/cache may go at any time, and fontconfig fills it when a program
# draws for the first time.
everything() {
  find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /root/packages -o -path /run \
    -o -path /var/cache \) -prune -o \
    -printf '%y %m %u:%g %p %l\n' | sort
}
cd /root/packages
quiet apt-get update
# what ridge needs comes first: what other packages leave behind is theirs
needs=$(dpkg-deb -f ridge.deb Depends)
touch /root/log /root/before /root/after
if test -e ridge-mpi.deb; then
  needs="$needs, $(dpkg-deb -f ridge-mpi.deb Depends | sed 's/ridge (= [^)]*), *//')"
fi
quiet apt-get satisfy -y --no-install-recommends "$needs, luajit, libzmq5"
everything >/root/before

quiet dpkg -i older.deb
test -e /usr/share/ridge/gone/old
quiet dpkg -i ridge.deb ridge-doc.deb
test ! -e /usr/share/ridge/gone
cd /tmp
mkdir home
export HOME=/tmp/home
test "$(ridge -e '(ridge.ones(2, 3):matmul(ridge.ones(3, 2)))[1][1]:item()')" = 3
test "$(luajit -e "print((require 'ridge'.arange(1, 3):sum():item()))")" = 6
ridge run analyze --help >/dev/null
ridge /usr/share/doc/ridge/recipes/analyze.lua --help >/dev/null
ridge -e "require('ridge.store').open('/tmp/home/r.db', 'write'):close()"
test -s /tmp/home/r.db
draws='ridge.memory.timeline(function() return ridge.ones(9):sum() end):plot()'
ridge -e "$draws:save '/tmp/home/w.png'" >/dev/null
test -s /tmp/home/w.png
bash -n /usr/share/bash-completion/completions/ridge
zcat /usr/share/man/man1/ridge.1.gz | grep -q '^.SH COMMANDS'
cd /
grep -q '"/usr/bin/ridge","kernel"' /usr/share/jupyter/kernels/ridge/kernel.json
ridge kernel --install --prefix /tmp/home >/dev/null
grep -q '"/usr/lib/ridge/ridge","kernel"' /tmp/home/share/jupyter/kernels/ridge/kernel.json
ridge doctor --seconds 0.1 | grep -q '^MPI  *none: there is no /usr/lib/ridge/libridge_mpi.so'
if test -e /root/packages/ridge-mpi.deb; then
  quiet dpkg -i /root/packages/ridge-mpi.deb
  ridge doctor --seconds 0.1 | grep -q '^MPI  *Open MPI .*, by /usr/lib/ridge/libridge_mpi.so'
  cd /tmp/home
  echo "print(require('ridge').dist.init().size)" >ranks.lua
  test "$(ridge launch -n 2 ranks.lua | sort | tr '\n' ' ')" = '[0] 2 [1] 2 '
  cd /
  quiet dpkg --purge ridge-mpi
fi
rm -rf /tmp/home
quiet dpkg --purge ridge ridge-doc
everything >/root/after
diff /root/before /root/after && echo "$(wc -l </root/after) files, links and folders, as before"
END
inside 'bash /root/life.sh' || fail 'a life in an empty Debian failed'

# -- piuparts ----------------------------------------------------------------------------
rm -rf "$work/root/packages" "$work"/root/{life.sh,log,before,after}
rm -rf "$work"
cp -a "$base" "$work"
copy_network "$work"
piuparts --existing-chroot "$work" --keep-sources-list --distribution "$suite" --no-eatmydata \
  --fake-essential-packages ca-certificates --warn-on-leftovers-after-purge \
  "$ridge" "$doc" ${mpi[@]+"${mpi[@]}"} >"$folder/piuparts.log" 2>&1 ||
  { tail -n 30 "$folder/piuparts.log" >&2; fail 'piuparts is not content'; }
grep -E 'PASS|FAIL' "$folder/piuparts.log" || :
exit $failed
