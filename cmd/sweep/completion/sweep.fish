# Completion of sweep for fish.
# Use: sweep completion fish >~/.config/fish/completions/sweep.fish
function __sweep_words
    set -l words (commandline -opc)
    $words[1] __complete $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c sweep -e
complete -c sweep -f -a '(__sweep_words)'
