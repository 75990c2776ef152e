# shellcheck shell=bash
# Helpers shared by the scripts of this folder. Source it; it changes nothing by itself.

# The repository's root, whatever folder the script was called from.
# shellcheck disable=SC2034  # used by the scripts that source this file
FP_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
FP_START=$SECONDS
# With ccache, clones in different folders share compiled objects.
export CCACHE_BASEDIR="$FP_ROOT" CCACHE_NOHASHDIR=1

say() { printf '%s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
# die EXIT_CODE MESSAGE...: 2 is wrong usage, 1 anything else.
die() {
  local code=$1
  shift
  printf 'error: %s\n' "$*" >&2
  exit "$code"
}

# A headline with the time since the script began.
stage() {
  local t=$((SECONDS - FP_START))
  printf '\n== [%d:%02d] %s\n' $((t / 60)) $((t % 60)) "$*"
}

# --help is the comment block at the top of the calling script.
print_help() { sed -n '2,/^[^#]/{/^#/!d;s/^# \{0,1\}//;p}' "$0"; }

# Cores that this process may use.
cores() { nproc; }

# need_value FLAG COUNT: dies unless FLAG is followed by a value.
need_value() { [ "$2" -ge 2 ] || die 2 "$1 needs a value (see --help)"; }
