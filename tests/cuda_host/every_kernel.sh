#!/usr/bin/env bash
# every_kernel.sh FOLDER: fails when a kernel of the test programs was launched by no test, and names it. FOLDER is where
# kernel_notes.cpp writes its lists.
set -euo pipefail
cd "$1"
# Each instance of a kernel template has a line; only the kernel and its arguments are kept of the compiler's name.
names() { cat ./*."$1" | sed -e 's/.*Kernel = //' -e 's/]$//' | sort -u; }
[ -n "$(names known)" ] || { echo 'no program noted which kernels it holds'; exit 1; }
never=$(comm -23 <(names known) <(names launched))
[ -z "$never" ] || { printf 'no test launched:\n%s\n' "$never"; exit 1; }
printf '%s kernels, all launched\n' "$(names known | wc -l)"
