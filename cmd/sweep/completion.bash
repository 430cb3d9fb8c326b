# Completion of sweep for bash 3.2 and later; it needs no package.
# Use: source <(sweep completion bash)
_sweep() {
  local current=${COMP_WORDS[COMP_CWORD]} word
  local words=("${COMP_WORDS[@]:0:COMP_CWORD}")
  # The program lists flags if its last word is the start of one, else commands.
  [[ $current == -* ]] && words+=("$current")
  COMPREPLY=()
  while IFS= read -r word; do
    word=${word%%:*} # the rest is its description
    [[ -n $word && $word == "$current"* ]] && COMPREPLY+=("$word")
  done < <("${words[@]}" --generate-shell-completion 2>/dev/null </dev/null)
}
complete -o bashdefault -o default -F _sweep sweep
