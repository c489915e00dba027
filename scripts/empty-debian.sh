# SPDX-License-Identifier: MIT
#
# empty-debian.sh: an empty Debian to try things in, for scripts that read this file.  They have set
#
#   base    the pristine system, made once and kept
#   work    where its copy is run
#   suite   the Debian release
#   stdin   what commands inside read
#
# It reaches the network the way this machine's apt does: its sources, keys, options, proxies and CA
# certificates are copied in.

say() { echo "$(basename "$0"): $*"; }

[ "$(id -u)" = 0 ] || { say "needs root" >&2; exit 1; }
for tool in debootstrap unshare chroot; do
  command -v $tool >/dev/null || { say "$tool is not installed" >&2; exit 1; }
done

# The first archive that this machine's apt uses for the release.
mirror_of_host() {
  apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite="$suite" '$1 == suite && $2 == "main" { print $3; exit }'
}

# Copy how this machine reaches the network: resolver, apt, keys and certificates.
copy_network() {
  local into=$1 path
  for path in /etc/resolv.conf /etc/hosts /etc/apt /etc/ssl/certs /usr/share/keyrings \
    /usr/local/share/ca-certificates; do
    [ -e $path ] || continue
    mkdir -p "$into$(dirname $path)"
    rm -rf "${into:?}$path"
    cp -rLT $path "$into$path"
  done
  rm -f "$into"/etc/apt/sources.list.d/*disabled*
}

make_base() {
  local mirror
  mirror=$(mirror_of_host)
  [ -n "$mirror" ] || { say "apt here has no source for $suite" >&2; exit 1; }
  say "making $base (once)"
  rm -rf "$base.part"
  debootstrap --variant=minbase --include=git,make "$suite" "$base.part" "$mirror" \
    >"$base.log" 2>&1 || { tail -n 5 "$base.log" >&2; exit 1; }
  rm -rf "$base.part"/var/cache/apt/archives/*.deb
  mv "$base.part" "$base"
}

# Run a command inside, in its own mount and process spaces, with nothing of this environment but
# the proxies.
inside() {
  local keep=() name
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    [ -z "${!name:-}" ] || keep+=("$name=${!name}")
  done
  unshare --mount --pid --fork --kill-child bash -c '
    set -e
    mount --rbind /dev "$0/dev"
    mount --rbind /sys "$0/sys"
    mount -t proc proc "$0/proc"
    exec chroot "$@"' "$work" "$work" /usr/bin/env -i ${keep[@]+"${keep[@]}"} \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb CI=true \
    DEBIAN_FRONTEND=noninteractive sh -c "$1" <$stdin
}

# A copy of the pristine system, which is made where it is not there.
copy_of_base() {
  [ -d "$base" ] || make_base
  rm -rf "$work"
  cp -a "$base" "$work"
  copy_network "$work"
}
