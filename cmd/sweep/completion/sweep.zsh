#compdef sweep
# Completion of sweep for zsh.
# Use: source <(sweep completion zsh), or as a file _sweep in a folder of fpath.
_sweep() {
  local line word doc
  local -a typed whole wholedoc open opendoc
  typed=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")
  for line in "${(@f)$("${(Q)words[1]}" __complete "${typed[@]}" 2>/dev/null)}"; do
    word=${line%%$'\t'*}
    [[ -n $word ]] || continue
    doc=$word
    [[ $line == *$'\t'* ]] && doc="$word  -- ${line#*$'\t'}"
    if [[ $word == *[/=] ]]; then
      open+=("$word") opendoc+=("$doc")
    else
      whole+=("$word") wholedoc+=("$doc")
    fi
  done
  (( $#whole )) && compadd -l -d wholedoc -a whole
  (( $#open )) && compadd -S '' -l -d opendoc -a open
}
if [[ $funcstack[1] == _sweep ]]; then
  _sweep "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
  compdef _sweep sweep
fi
