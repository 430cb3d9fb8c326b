#!/usr/bin/env bash
# Installs zsh and fish, in which e2e:shells presses the tab key. As root, with apt.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

missing=()
for shell in zsh fish; do
	command -v "$shell" >/dev/null || missing+=("$shell")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0
[[ ${1:-} != --check ]] || exit 1
debian "${missing[@]}"
