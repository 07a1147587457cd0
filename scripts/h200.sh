#!/usr/bin/env bash
# Everything that a call to a machine with a GPU does, each step under its own time limit. Results go to the
# folder given (default out/h200); a step whose result is already there is skipped, so an interrupted call is
# resumed by running the same line again.
#
#   scripts/h200.sh [FOLDER] [STEP...]
#
# Steps (default: all, in this order): doctor cost tests hostile overhead p1 kernels self controls calibrate p2 seeds. `cost`
# measures times, so it comes before whatever keeps the machine busy. `controls`, `calibrate` and `p2` keep
# their rows in FOLDER/journals and stop in time: carry that folder to go on in another call.
set -uo pipefail
cd "$(dirname "$0")/.."
folder=${1:-out/h200}
shift || true
steps=${*:-doctor cost tests hostile overhead p1 kernels self controls calibrate p2 seeds}
mkdir -p "$folder/journals"
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
step cost cost.txt 200 bash -c "python3 benchmarks/bound_cost.py --device cuda"
step tests tests.txt 200 python3 -m pytest -p no:cacheprovider -m gpu tests/gpu tests/unit/reference/test_device.py
step hostile hostile.txt 240 python3 -m pytest -p no:cacheprovider -m gpu tests/hostile -rA -q
step overhead overhead.txt 90 python3 benchmarks/worker_overhead.py --device cuda
step p1 p1.json 280 bash -c "gpuemu study p1 --device cuda --seed 0 --json --output '$folder/p1'"
step kernels kernels.json 170 bash -c "gpuemu study real-kernels --device cuda --seed 0 --json --output '$folder/real-kernels'"
step self self.txt 200 bash -c "gpuemu ops --self-test --device cuda"
long() { # study or verb, minutes: goes on where the journal ends
    echo "$1 --device cuda --journal '$folder/journals/$2.jsonl' --minutes $3 --json"
}
step controls controls.json 560 bash -c "gpuemu $(long 'study controls' controls ${CONTROLS_MINUTES:-7}) --output '$folder/controls'"
step calibrate calibrate.json 400 bash -c "gpuemu $(long calibrate calibrate ${CALIBRATE_MINUTES:-3}) --rounds 2 --output '$folder/calibration.toml'"
step p2 p2.json 560 bash -c "gpuemu $(long 'study p2' p2 ${P2_MINUTES:-6}) --output '$folder/p2'"
step seeds seeds.txt 240 bash -c "for seed in 1 2 3; do gpuemu study p1 --device cuda --seed \$seed --json | python3 -c 'import json, sys; d = json.load(sys.stdin); print(d[\"seed\"], d[\"bugs\"], d[\"controls\"], d[\"seconds\"])'; done"
for shown in doctor tests hostile overhead self seeds; do [[ -s "$folder/$shown.txt" ]] && tail -n 12 "$folder/$shown.txt"; done
[[ -s "$folder/cost.txt" ]] && cat "$folder/cost.txt"
for study in p1 controls p2; do
    [[ -s "$folder/$study.json" ]] && python3 -c "
import json, sys
document = json.load(open(sys.argv[1]))
keys = ('device_name', 'bugs', 'controls', 'baselines', 'cases', 'runs', 'judged', 'statuses', 'false_alarms',
        'bound_on_rate_95', 'items', 'items_planned', 'mutants', 'scored', 'missed', 'seconds')
print(json.dumps({key: document[key] for key in keys if key in document}))" "$folder/$study.json"
done
exit 0
