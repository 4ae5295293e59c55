#!/bin/sh
# Writes the names of the documented kernel parameters to internal/advise/knob/kernel_parameters.txt, one a line, sorted. Names
# only: they are facts; no text of the documentation is copied.
#
#   scripts/kernel-parameters.sh DOCUMENTATION SOURCE
#
# DOCUMENTATION is the folder of that name of a kernel tree or of a package such as Debian's linux-doc-6.12
# (/usr/share/doc/linux-doc-6.12/Documentation); SOURCE is how the list says where it comes from.
set -eu
doc=$1
source=$2
target=$(dirname "$0")/../internal/advise/knob/kernel_parameters.txt

text() {
	for name in "$doc/$1" "$doc/$1.gz"; do
		if [ -e "$name" ]; then
			case $name in *.gz) gzip -dc "$name" ;; *) cat "$name" ;; esac
			return
		fi
	done
	echo "$doc/$1: there is no such file" >&2
	exit 1
}

{
	echo "# Names of documented kernel parameters, from $source by scripts/kernel-parameters.sh."
	{
		# A parameter begins after one tab: NAME=, NAME[=…], NAME followed by its [TAGS], or NAME alone on its line.
		text admin-guide/kernel-parameters.txt | sed -n -E \
			-e 's/^	([A-Za-z_][A-Za-z0-9_.<>*-]*)=.*/\1/p' \
			-e 's/^	([A-Za-z_][A-Za-z0-9_.<>*-]*)\[.*/\1/p' \
			-e 's/^	([A-Za-z_][A-Za-z0-9_.<>*-]*)[ 	]+\[.*/\1/p' \
			-e 's/^	([A-Za-z_][A-Za-z0-9_.<>*-]*)[ 	]*$/\1/p'
		# Those of the 64-bit x86 kernel stand after three blanks.
		text arch/x86/x86_64/boot-options.rst | sed -n -E \
			-e 's/^   ([a-z][a-z0-9_.]*)=.*/\1/p' \
			-e 's/^   ([a-z][a-z0-9_.]*)[ ]*$/\1/p' \
			-e 's/^   ([a-z][a-z0-9_.]*) \(.*/\1/p'
	} | sed -e 's/<[^>]*>/*/g' | LC_ALL=C sort -u
} >"$target"
