#!/usr/bin/env bash
# every_kernel.sh FOLDER: fails, naming them, when a kernel that the tests' programs hold was launched by no test. FOLDER
# is where kernel_notes.cpp has left its lists.
set -euo pipefail
cd "$1"
# One kernel of many types has one line each; of the compiler's name only the kernel with its arguments is kept.
names() { cat ./*."$1" | sed -e 's/.*Kernel = //' -e 's/]$//' | sort -u; }
[ -n "$(names known)" ] || { echo 'no program noted which kernels it holds'; exit 1; }
never=$(comm -23 <(names known) <(names launched))
[ -z "$never" ] || { printf 'no test launched:\n%s\n' "$never"; exit 1; }
printf '%s kernels, all launched\n' "$(names known | wc -l)"
