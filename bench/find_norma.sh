# shellcheck shell=bash
# Sourced with `root` set: sets `norma` to the program with a GPU's kernels, NORMA or that of a bundle or a build; ends the script
# where there is none.
: "${root:?}"
norma=${NORMA:-}
for file in "$root"/{bin,build/bundle/bin,build/cuda/bin}/norma; do
  [[ -n $norma || ! -x $file ]] || norma=$file
done
[[ -x $norma ]] || { echo "${0##*/}: there is no program ${norma:-norma}; build it with: ./run bundle" >&2 && exit 1; }
