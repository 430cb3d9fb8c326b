# Completion of sweep for bash 3.2 and later; it needs no package.
# Use: source <(sweep completion bash)
_sweep() {
  # bash splits at = and :, and replaces only what follows the last of them. The
  # program is asked for whole words, which are put together here.
  local words=() i piece glued=
  for ((i = 1; i <= COMP_CWORD; i++)); do
    piece=${COMP_WORDS[i]}
    if [[ ${#words[@]} -gt 0 && ($piece == [=:]* || $glued) ]]; then
      words[${#words[@]}-1]+=$piece
    else
      words+=("$piece")
    fi
    glued=
    [[ $piece == *[=:] ]] && glued=1
  done
  local current=${words[${#words[@]}-1]} last=${COMP_WORDS[COMP_CWORD]}
  local before=
  [[ $last == [=:] ]] && last=
  before=${current%"$last"}
  # An open quote stays where it is.
  local quote=
  [[ $current == [\"\']* ]] && quote=${current:0:1} && words[${#words[@]}-1]=${current:1}
  COMPREPLY=()
  local line word
  while IFS= read -r line; do
    word=${line%%$'\t'*} # the rest is its description
    [[ -n $quote ]] || word=${word#"$before"}
    COMPREPLY+=("$word")
  done < <("$1" __complete "${words[@]}" 2>/dev/null </dev/null)
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[/=] ]] && type compopt >/dev/null 2>&1; then
    compopt -o nospace 2>/dev/null
  fi
}
complete -F _sweep sweep
