-- SPDX-License-Identifier: MIT
-- Mistakes on the command line, for approved_spec.lua.

return [[
# the program's own flags
--zork
--thread 2
--threads
--threads x
--threads 1.5
--threads -1
--threads 99999
--threads 1e10
--seed
--seed x
--seed -1
--seed 1.5
--seed 9007199254740993
--seed 9007199254740992 --version=1
--device tpu
--device cuda:0
--device cuda:99
--affinity x
--affinity 3-1
--affinity 0-5000
--affinity
--affinity ,
--affinity 0-
--priority x
--priority 100
--trace half
--trace
--quiet=1
--no-jit=no
-e
-x
--help=1
--
nothing
lsit
./nothing.lua
nothing.lua
Sweeps
help nothing
help ridge.nothing
help ridge.nn.Liner
help linera
help compar
help sweeps
help ridge sweeps
help batch size
help batch-size
help Export
help ridge.near
help plot map
help --zork
# commands that measure, and what they say before they do
ab
ab nothing
ab widths
ab widths --a kind=linear
ab widths --a kind --b kind
ab widths --b kind=x
ab widths --a kind=linear --b kind=sketched --fail-on x
ab nothing --a k=1 --b k=2
ab widths --a k=1 --b k=2 --processes 0
ab widths --a k=1 --b k=2 --processes 65
ab widths --a k=1 --b k=2 --blocks 5
ab widths --a k=1 --b k=2 --looks 21
ab widths --a k=1 --b k=2 --looks 0
ab widths --a k=1 --b k=2 --margin 1.5
ab widths --a k=1 --b k=2 --tolerance -1
ab widths --a k=1 --b k=2 --as csv
batch-size
batch-size a b
batch-size 'linear{8,8}' --out x.jpg
batch-size 'linear{8,8}' --out FOLDER/none/x.png
batch-size 'linear{8,8}' --quick --rigorous
batch-size 'linear{8,8}' --share 0
batch-size 'linear{8,8}' --share 200%
batch-size 'linear{8,8}' --least x
batch-size 'linear{8,8}' --memory lots
batch-size 'linear{8,8}' --memory 0GB
batch-size 'linear{8,8}' --min 0
batch-size 'linear{8,8}' --kind fast
batch-size 'linear{8,8}' --optimizer adamm
batch-size 'linear{8,8}' --dtype f31
batch-size 'linear{8,8}' --device tpu
batch-size 'linear{8' --db FOLDER/new.db
batch-size 'liner{8,8}' --db FOLDER/new.db
batch-size 'linear{8,8}' --min 4 --max 2 --db FOLDER/new.db
batch-size 'linear{8,8}' --budget soon --db FOLDER/new.db
batch-size 'linear{8,8}' --budget soon --kind throughput --db FOLDER/new.db
bench
bench 'linear{8,8}' --quick --rigorous
bench 'linear{8,8}' --iterations 1
bench 'linear{8,8}' --iterations -1
bench 'linear{8,8}' --warmup -2
bench 'linear{8,8}' --precision 0
bench 'linear{8,8}' --precision 101%
bench 'linear{8,8}' --precision x%
bench 'linear{8,8}' -P
bench 'linear{8,8}' -P batch
bench 'linear{8,8}' -P batch=
bench 'linear{8,8}' -P batch=x
bench 'linear{8,8}' -P batch=1..8*1
bench 'linear{8,8}' -P batch=8..1
bench 'linear{8,8}' -P batch=1 -P batch=2
bench 'linear{8,8}' --workers 0
bench 'linear{8,8}' --threads 2000
bench 'linear{8,8}' --out FOLDER/none
bench 'liner{8,8}' --db FOLDER/new.db
bench 'linear{8}' --db FOLDER/new.db
bench 'linear{8,k}' --db FOLDER/new.db
bench 'mlp{8}' --db FOLDER/new.db
bench 'linear{8,8' --db FOLDER/new.db
bench 'linear{8,8,zork=1}' --db FOLDER/new.db
bench 'linear{8,8}' -P k=1,2 --db FOLDER/new.db
autotune
autotune nothing.lua
autotune FOLDER/uses.lua more
autotune FOLDER/uses.lua --progress live
choices more
choices --as xml
calibrate --threads x
calibrate --threads 0
calibrate --threads 1.5
calibrate --threads 1025
calibrate --as csv
calibrate --device tpu --show
calibrate more
trust --minutes 0
trust --minutes 601
trust --threads 1025
trust -o x.jpg
trust -o FOLDER/none/x.png
trust --as csv
doctor --seconds 0
doctor --seconds 61
doctor --device tpu
doctor --device cpu
doctor more
replay
replay x
replay 99
replay 1 2
run
run --zork
run nothing
run landscap
run -x
list more
list --zork
sweep
sweep nothing
sweep a b
sweep FOLDER/small.lua --quick --rigorous
sweep FOLDER/small.lua --jobs 0
sweep FOLDER/small.lua -j 2000
sweep FOLDER/small.lua --samples -1
sweep FOLDER/small.lua --isolate sometimes
sweep FOLDER/small.lua --progress loud
sweep FOLDER/small.lua -P
sweep FOLDER/small.lua -P zork
sweep FOLDER/small.lua -P zork=1 --dry-run
sweep FOLDER/small.lua -P k=1..x --dry-run
sweep FOLDER/small.lua --where 'k >' --dry-run
sweep FOLDER/small.lua --where 'zork > 1' --dry-run
sweep FOLDER/small.lua --shard 3 --dry-run
sweep FOLDER/small.lua --shard 3/2 --dry-run
sweep FOLDER/small.lua --budget soon --dry-run
sweep FOLDER/nosweep.lua
# what would be measured
sweep FOLDER/small.lua --dry-run
sweep FOLDER/small.lua -P k=1..8*2 --dry-run
sweep FOLDER/small.lua -P k=1..8*2 --where 'k > 2' --dry-run
sweep FOLDER/small.lua --shard 1/2 --dry-run
sweep FOLDER/small.lua --samples 2 --dry-run
sweep FOLDER/small.lua -P k=~1..100 --samples 7 --dry-run
]]
