#!/usr/bin/env bash
# Everything that a call to a machine with a GPU does, each step under its own time limit. Results go to the
# folder given (default out/h200); a step whose result is already there is skipped, so an interrupted call is
# resumed by running the same line again.
#
#   scripts/h200.sh [FOLDER] [STEP...]      steps: doctor p1 kernels tests seeds (default: all, in this order)
set -uo pipefail
cd "$(dirname "$0")/.."
folder=${1:-out/h200}
shift || true
steps=${*:-doctor p1 kernels tests seeds}
mkdir -p "$folder"
export PYTHONPATH="src${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 GPUEMU_STORE="$folder/store"
gpuemu() { python3 -m gpuemu "$@"; }

step() { # name, result file, seconds, command...
    local name=$1 result=$2 limit=$3
    shift 3
    [[ " $steps " == *" $name "* ]] || return 0
    if [[ -s "$folder/$result" ]]; then echo "== $name: already there"; return 0; fi
    echo "== $name"
    local started=$SECONDS
    if timeout "$limit" "$@" > "$folder/$result.part" 2> "$folder/$name.err"; then
        mv "$folder/$result.part" "$folder/$result"
        echo "   done in $((SECONDS - started)) s"
    else
        echo "   exit $? after $((SECONDS - started)) s"
        tail -n 40 "$folder/$result.part" "$folder/$name.err"
    fi
}

export -f gpuemu
step doctor doctor.txt 60 bash -c "gpuemu doctor"
step p1 p1.json 280 bash -c "gpuemu study p1 --device cuda --seed 0 --json --output '$folder/p1'"
step kernels kernels.json 170 bash -c "gpuemu study real-kernels --device cuda --seed 0 --json --output '$folder/real-kernels'"
step tests tests.txt 160 python3 -m pytest -p no:cacheprovider -m gpu tests/gpu
step seeds seeds.txt 240 bash -c "for seed in 1 2 3; do gpuemu study p1 --device cuda --seed \$seed --json | python3 -c 'import json, sys; d = json.load(sys.stdin); print(d[\"seed\"], d[\"bugs\"], d[\"controls\"], d[\"seconds\"])'; done"
[[ -s "$folder/doctor.txt" ]] && cat "$folder/doctor.txt"
[[ -s "$folder/tests.txt" ]] && tail -n 5 "$folder/tests.txt"
[[ -s "$folder/seeds.txt" ]] && cat "$folder/seeds.txt"
[[ -s "$folder/p1.json" ]] && python3 -c "
import json, sys
d = json.load(open(sys.argv[1]))
print(json.dumps({k: d[k] for k in ('device_name', 'bugs', 'controls', 'baselines', 'cases', 'seconds')}, indent=1))" "$folder/p1.json"
exit 0
