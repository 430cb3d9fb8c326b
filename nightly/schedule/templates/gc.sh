#!/bin/sh
# Ends pods whose time is over. Made by sweep schedule.
cd {{sh .Dir}} || exit 1
if [ -e ./sweep.env ]; then
	set -a
	. ./sweep.env
	set +a
fi
exec {{sh .Exe}} gc --expired --yes
