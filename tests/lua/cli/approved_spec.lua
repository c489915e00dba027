-- SPDX-License-Identifier: MIT
-- Everything the commands print, word by word, of databases whose every row is written by hand
-- (fixed_rows.lua): each group of lines below is typed in one process, and its text is
-- tests/approved/cli/GROUP.txt.

local approved = dofile 'tests/lua/approved.lua'
local fixed = dofile 'tests/lua/cli/fixed_rows.lua'
local folders = dofile 'tests/lua/store/folder.lua'

local GROUPS = {}

GROUPS.show = [[
show 1
show 2
show 3
show 4
show 5
show 6
show 7
show 11
show 12
show 13
show 14
show 21
show 22
show 23
show 24
show 25
show 26
show 27
show 28
show 31
show 32
show
show 0
show 15
show 1 2
show one
show 1.0
show --by fwd 1
show 1 --db
show 1 --db FOLDER/none.db
show 9007199254740992
]]

GROUPS.sweeps = [[
sweeps
sweeps --as csv
sweeps --as json
sweeps --as jsonl
sweeps --as md
sweeps --db FOLDER/b.db
sweeps --db FOLDER/nothing.db
sweeps --as yaml
sweeps widths
sweeps --db FOLDER/none.db
sweeps --like 'w*s'
sweeps --like OL --since 2026-01-01
sweeps --since 2026-01-03
sweeps --since soon
note old
note
note zork 'x'
note old ' '
note old --as json
]]

GROUPS.best = [[
best widths
best widths --for fwd
best widths --for 'max 64 / fwd' --where 'width <= 64'
best widths --for 'min fwd_quiet'
best widths --for loss
best widths --for loss -n 1
best widths --for 'max fwd.gflops' --as csv
best widths --for fwd --where 'fwd < 2us' --as json
best widths --for fwd --where 'width > 1000'
best widths --for 'max zork'
best widths --for 'max fwd + bwd'
best widths --for fwd --settle soon
best old --for fwd
best nosuch --for fwd
# which show points that they leave out
top widths --by fwd --disturbed
retry widths --grade E
retry widths --grade A --where 'width > 1000'
retry widths --when-quiet never
]]

GROUPS.top = [[
top widths
top widths --by fwd
top widths --by fwd --quiet
top widths --by fwd_quiet
top widths --by fwd.gflops
top widths --by fwd_gflops -n 2
top widths --by loss
top widths --by loss --where 'width < 128'
top widths --by fwd --where 'width = 256 and kind = "linear"'
top widths --by fwd -n 1
top widths --by fwd --where 'width <= 64' --as csv
top widths --by fwd --where 'width <= 64' --as json
top widths --by fwd --where 'width <= 64' --as jsonl
top widths --by fwd --where 'width <= 64' --as md
top widths --by fwd --where 'width > 1000'
top widths --by fwd_p95 -n 3
top widths --by fwd_cold
top old
top old --by fwd --quiet
top half
# what is wrong
top
top nothing
top width
top widths --by fwd_flops
top widths --by fdw
top widths --by width
top widths --by loss --quiet
top widths --by fwd -n 0
top widths --by fwd -n 1.5
top widths --by fwd -n many
top widths --by fwd --where 'width >'
top widths --by fwd --where 'widht > 1'
top widths --by fwd --where '1) or (1'
top widths more
top broken
top empty
top widths --bye fwd
top widths -by fwd
top widths --as text
]]

GROUPS.query = [[
query widths
query widths 'kind, width, fwd'
query widths 'kind, median(fwd), n := count(fwd)' --group kind --sort kind
query widths 'width, min(fwd), max(fwd), sum(fwd), mean(fwd)' --group width --sort -1
query widths 'width, p1(fwd), p5(fwd), p10(fwd), p25(fwd)' --group width
query widths 'width, p75(fwd), p90(fwd), p95(fwd), p99(fwd)' --group width
query widths 'fwd / width, us := fwd / 1000' --sort us --limit 3
query widths 'width' --where 'fwd > 3000' --sort -width
query widths 'trial, fwd_first, fwd_cold, fwd_cold_lo, fwd_cold_hi' --where 'trial = 1'
query widths 'trial, fwd_quiet, fwd_quiet_lo, fwd_quiet_hi' --sort trial
query widths 'trial, fwd_ratio, fwd_ratio_lo, fwd_ratio_hi, partner' --sort trial
query widths 'trial, fwd_between, fwd_within, fwd_passes, fwd_procs, fwd_n' --sort trial
query widths 'trial, grade, flags, loss' --where 'grade >= "C" or loss < 0.2' --as csv
query widths 'trial, loss' --where 'trial > 4' --as json
query widths 'trial, loss' --where 'trial > 4' --as jsonl
query widths 'trial, fwd' --where 'trial > 4' --as md
query widths 'count(*)'
query broken 'trial, state, reason' --sort trial
query broken
query half
query empty
query widths -n 1
query --sql 'SELECT kind, count(*) AS n, avg(fwd) AS t FROM "widths" GROUP BY 1'
query --sql 'SELECT trial, state, t_ns, ci_lo, ci_hi FROM result WHERE cache = "warm"' --as csv
query --sql 'SELECT 1 AS one, 2.5 AS two, NULL AS none, "x" AS text' --as json
query --sql 'SELECT 9007199254740993 AS large, -1 AS less'
# what is wrong
query
query nothing
query widths widht
query widths 'width, width'
query widths 'median(width' --group kind
query widths 'median(kind)'
query widths 'median(fwd), width'
query widths 'kind + 1'
query widths 'medain(fwd)'
query widths '1 +'
query widths width --where 'width = "a"'
query widths width --where 'kind > 3'
query widths width --where "kind = 'linear"
query widths width --group nothing
query widths width --sort nothing
query widths width --sort 2
query widths width --limit -1
query widths width --limit x
query widths width more
query widths --sql 'SELECT 1'
query --sql 'SELECT 1' --where 'x = 1'
query --sql 'SELECT 1' --limit 2
query --sql 'SELEC 1'
query --sql 'DELETE FROM trial'
query --sql 'SELECT * FROM elsewhere'
query --sql 'SELECT 1; SELECT 2'
]]

GROUPS.export = [[
export widths
export widths --as json
export widths --as jsonl
export widths --as md
export widths --as table
export old --samples
export widths --samples --as md
export old
export broken
export empty
export empty --samples
export old --samples -o FOLDER/out.csv
query --sql 'SELECT 1'
export
export nothing
export widths -o FOLDER
export widths -o FOLDER/none/out.csv
export widths --as xml
export widths --sample
]]

GROUPS.compare = [[
compare FOLDER/a.db FOLDER/b.db --match-all
compare FOLDER/a.db FOLDER/b.db --match-all --quiet
compare FOLDER/a.db FOLDER/b.db --match kind,width --margin 0.3
compare FOLDER/a.db FOLDER/c.db --match-all
compare FOLDER/a.db FOLDER/d.db --match-all
compare FOLDER/a.db FOLDER/e.db --match-all
compare FOLDER/a.db FOLDER/f.db --match-all
compare FOLDER/a.db FOLDER/g.db --match-all
compare FOLDER/a.db FOLDER/a.db --match-all --sweep old
compare FOLDER/b.db FOLDER/a.db --match-all --fail-on faster
compare FOLDER/a.db FOLDER/b.db --match-all --fail-on 'slower>2%'
compare FOLDER/a.db FOLDER/b.db --match-all --fail-on 'slower>50%'
compare FOLDER/a.db FOLDER/b.db --match-all --fail-on open
compare FOLDER/a.db FOLDER/b.db --match-all --strict
compare FOLDER/b.db FOLDER/c.db --match-all --as json --sweep widths
compare widths --a kind=linear --b kind=sketched
compare widths --a kind=linear --b kind=sketched --quiet
compare widths --a width=64 --b width=128 --match kind --margin 0.5
compare widths --a kind=linear,width=64 --b kind=sketched,width=64 --phases fwd --as json
compare widths --a kind=linear --b kind=sketched --fail-on 'slower>40%'
compare widths --a kind=linear --b kind=sketched --strict
# what is wrong
compare
compare FOLDER/a.db
compare FOLDER/a.db FOLDER/b.db
compare FOLDER/a.db FOLDER/b.db --match-all --match kind
compare FOLDER/a.db FOLDER/b.db --match kindd
compare FOLDER/a.db FOLDER/b.db --match kind
compare FOLDER/a.db FOLDER/none.db --match-all
compare FOLDER/a.db FOLDER/b.db --match-all --sweep nothing
compare FOLDER/a.db FOLDER/b.db --match-all --fail-on slow
compare FOLDER/a.db FOLDER/b.db --match-all --fail-on 'slower>x%'
compare FOLDER/a.db FOLDER/b.db --match-all --margin 2
compare FOLDER/a.db FOLDER/b.db --match-all --margin -1
compare widths --a kind=linear
compare widths --b kind=linear
compare widths --a kind --b kind=linear
compare widths more --a kind=linear --b kind=sketched
compare nothing --a kind=linear --b kind=sketched
compare widths --a knd=linear --b kind=sketched
compare widths --a kind=linear --b kind=low
compare widths --a kind=linear --b kind=linear
compare widths --a kind=linear --b kind=sketched --phases bwd
compare widths --a kind=linear --b kind=sketched --as csv
]]

GROUPS.keep = [[
db info
db check
db check FOLDER/b.db
db backup FOLDER/copy.db
db backup FOLDER/copy.db
db backup
db info FOLDER/copy.db
db migrate FOLDER/copy.db
db check FOLDER/nothing.db
db check FOLDER/wrong.db
db info FOLDER/text.db
db
db inof
db info FOLDER/a.db --db FOLDER/b.db
db info FOLDER/a.db more
merge FOLDER/all.db FOLDER/b.db FOLDER/copy.db
merge FOLDER/all.db FOLDER/b.db
merge FOLDER/all.db
merge FOLDER/all.db FOLDER/none.db
merge FOLDER/all.db FOLDER/text.db
sweeps --db FOLDER/all.db
retry broken --db FOLDER/copy.db --state oom
retry broken --db FOLDER/copy.db --state timeout,error --where 'k = 2'
retry broken --db FOLDER/copy.db
retry broken --db FOLDER/copy.db --state implied --state cancelled
retry broken --db FOLDER/copy.db
query broken 'trial, state' --db FOLDER/copy.db --sort trial
retry --db FOLDER/copy.db
retry nothing --db FOLDER/copy.db
retry broken --db FOLDER/copy.db --state ok
retry broken --db FOLDER/copy.db --state om
retry broken --db FOLDER/copy.db --where 'kk = 1'
watch widths
watch broken --once
watch half --once
watch old --once
watch empty
watch half --once -x k -y k -z fwd
watch
watch nothing
watch widths --every 0.01
watch widths --every 4000
watch widths more
]]

GROUPS.ceilings = [[
calibrate --show --db FOLDER/here.db
calibrate --show --db FOLDER/here.db --threads 1
calibrate --show --db FOLDER/here.db --threads 2,16
calibrate --show --db FOLDER/here.db --threads 3
calibrate --show --db FOLDER/here.db --as json
calibrate --show --db FOLDER/nothing.db
calibrate --show --db FOLDER/none.db
]]

GROUPS.plot = [[
plot
plot mapp widths
plot map
plot map nothing
plot map widths --size 10x10
plot map widths --size 959x800
plot map widths --size 960x799
plot map widths --size big
plot map widths -x nothing -y width
plot map widths -x width -y width
plot map old
plot ratio widths
plot ratio widths --a kind=linear
plot roofline old
plot effects old
plot history old --theme dark
plot steps widths -x kind
plot pareto widths -x loss
plot threads widths
plot forest widths
plot landscape widths
plot samples widths --trials 99
plot distribution widths --trials x
plot slices widths -y nothing
plot map widths -o FOLDER/map.jpg -x width -y batch
plot map widths -o FOLDER/none/map.png -x width -y batch
plot map widths --theme blue
plot map widths --tile -1
plot map widths more
plot map widths -x width -y kind -o FOLDER/map.png
replot
replot FOLDER/none.png
replot FOLDER/a.db
replot FOLDER/map.png --size 100x100
replot FOLDER/map.png --theme blue
replot FOLDER/map.png -o FOLDER/again.png --size 1200x1000
replot FOLDER/map.png more
]]

GROUPS.net = [[
net --show --db FOLDER/nothing.db
net --show --db FOLDER/none.db
net more
net -n 1
net -n 2..1024*2
net -n many
net --sizes 5
net --sizes 4
net --sizes 4,x
net --sizes 4,2000000000
net --starts 0
]]

GROUPS.scale = [[
scale
scale FOLDER/none.lua
scale FOLDER/small.lua more
scale FOLDER/small.lua --ranks 0
scale FOLDER/small.lua --ranks many
scale FOLDER/small.lua --measure x
scale FOLDER/small.lua --steps 7
scale FOLDER/small.lua --db FOLDER/nothing.db
scale FOLDER/small.lua --alpha 3 --db FOLDER/none.db
]]

GROUPS.submit = [[
submit
submit slum
submit slurm
submit slurm FOLDER/none.lua
submit slurm FOLDER/small.lua more
submit slurm FOLDER/nosweep.lua
submit slurm FOLDER/raises.lua
submit slurm FOLDER/small.lua -n 1
submit slurm FOLDER/small.lua --image x
submit sge FOLDER/small.lua --cpus 2
submit k8s FOLDER/small.lua --image x
submit k8s FOLDER/small.lua --image x --claim y --scratch /tmp
submit pbs FOLDER/small.lua --hosts a
submit slurm FOLDER/small.lua --time soon
submit slurm FOLDER/small.lua --budget soon
submit slurm FOLDER/small.lua --queue 'a b'
submit slurm FOLDER/small.lua --per 'a b'
submit slurm FOLDER/small.lua --per a,b -o FOLDER/one
submit slurm FOLDER/small.lua --scratch '`date`'
submit slurm FOLDER/small.lua --quick --rigorous
submit slurm FOLDER/small.lua -P j=1
submit slurm FOLDER/small.lua -o FOLDER/none/job
submit slurm FOLDER/small.lua -o FOLDER/text.db
submit slurm FOLDER/small.lua -P k=1..100 -o FOLDER/job
]]

GROUPS.wrong = dofile 'tests/lua/cli/approved_wrong.lua'

GROUPS.run = [[
list
--version
--version=1
--seed 9007199254740992 --threads 2 --device cpu --quiet -e 'ridge.num_threads(), ridge.rand(3)'
--seed 7 -e 'x = 2' -e 'x + 1, "two"'
-e 'x ='
-e 'error "no luck"' -e 'print "never"'
-e 'print(arg[0], arg[1], arg[2])' one two
-e 'return 1, nil, { 2 }'
FOLDER/uses.lua one 2
FOLDER/uses.lua
FOLDER/typo.lua
FOLDER/raises.lua
FOLDER/status.lua
FOLDER/broken.lua
run FOLDER/uses.lua three
sweep FOLDER/uses.lua
sweep FOLDER/raises.lua
options
options --epochs 3 --rate=0.5 --names a,b --names c --fast --no-keep --kind slow
options --fast=off --keep=no
options --names '' -e 3 --no-fast
options -e3
options --epochs 1 --epochs 2
# which ends the process
options --help
]]

-- The help of every command; a command that is new stands in none of them, and fails below.
local COMMANDS = { 'ab', 'advise', 'autotune', 'batch-size', 'bench', 'best', 'calibrate',
  'check', 'choices', 'compare', 'completion', 'db', 'docs', 'doctor', 'export', 'help', 'kernel',
  'launch', 'list', 'merge', 'net', 'note', 'onnx', 'peek', 'plot', 'profile', 'query', 'replay',
  'replot', 'report', 'retry', 'run', 'scale', 'show', 'smaller', 'stubs', 'submit', 'sweep',
  'sweeps', 'top', 'trust', 'watch' }

local lines = { '--help', '-h', 'help' }
for _, name in ipairs(COMMANDS) do
  lines[#lines + 1] = 'help ' .. name
  lines[#lines + 1] = name .. ' --help'
end
GROUPS.help = table.concat(lines, '\n') .. '\n'

-- One beside each limit that an option has, and what is no number or no whole one.
local NUMBERS = { 'x', '0.5', '1.5', '-2', '-1', '0', '0.0001', '0.001', '0.1', '1', '2', '5', '6',
  '20', '21', '60', '61', '64', '65', '600', '601', '1024', '1025', '3600', '3601', '1000000',
  '1000001' }

describe('what is printed by', function()
  local folder

  local function put(name, text)
    local file = assert(io.open(folder .. '/' .. name, 'w'))
    file:write(text)
    file:close()
  end

  setup(function()
    folder = folders.new()
    os.execute('mkdir ' .. folder .. '/recipes')
    fixed.make(folder .. '/a.db')
    fixed.make(folder .. '/b.db', { scale = 1.25, git = '9c8b7a6', only = true, uuids = 1000 })
    fixed.make(folder .. '/c.db', { scale = 1.01, only = true, uuids = 2000 })
    fixed.make(folder .. '/d.db', { governor = 'powersave', only = true, uuids = 3000 })
    for name, more in pairs { e = {}, f = { governor = 'powersave' }, g = { git = '9c8b7a6',
        governor = 'powersave' } } do -- of another machine, where none, one, two things differ, too
      more.cpu, more.only, more.uuids = 'Other CPU 7', true, 1000 * name:byte()
      fixed.make(('%s/%s.db'):format(folder, name), more)
    end
    require('ridge.store').open(folder .. '/nothing.db', 'write'):close()
    fixed.make(folder .. '/here.db', { only = true })
    fixed.ceilings_here(folder .. '/here.db')
    local sqlite = require 'ridge.store.sqlite'
    fixed.make(folder .. '/wrong.db', { only = true })
    local st = sqlite.open(folder .. '/wrong.db', 'write')
    st:exec [[PRAGMA foreign_keys = OFF; UPDATE attempt SET outcome = 'lost' WHERE id = 5;
      DELETE FROM timing WHERE id = 1; UPDATE samples SET n = 5 WHERE timing_id > 20;
      DELETE FROM trial WHERE id = 4]]
    st:close()
    put('text.db', ('no database\n'):rep(100))
    put('nosweep.lua', 'return 1')
    put('beside.lua', 'return { word = "beside" }')
    put('uses.lua', 'print(require("beside").word, arg[0]:match "[^/]*$", #arg, ...)')
    put('typo.lua', 'local count = 1\nprint(cuont)')
    put('raises.lua', 'local function f() error("no luck", 2) end\nf()\n')
    put('status.lua', '#!/usr/bin/env ridge\nprint "three" return 3')
    put('broken.lua', 'local x = = 1')
    put('recipes/options.lua', [[
--- Says what it was given.
local opt = require('ridge').args {
  about = 'Says what it was given.',
  { 'epochs', 2, 'passes over the data', integer = true, min = 1, max = 100, short = 'e' },
  { 'rate', 0.1, 'step' }, { 'names', { 'x' }, 'of layers' }, { 'fast', false, 'less' },
  { 'keep', true, 'nothing stays' }, { 'kind', 'quick', 'how', choices = { 'quick', 'slow' } },
  { 'out', '', 'file to write', writes = 'file' } }
print(opt.epochs, opt.rate, #opt.names, opt.names[1], opt.fast, opt.keep, opt.kind)]])
    put('small.lua', [[return require('ridge').sweep 'small' { space = { k = { 1, 2, 3 } },
      measure = function(p, _, m) m:metric('square', p.k * p.k, { better = 'lower' }) end }]])
  end)
  teardown(function() folders.remove(folder) end)

  -- What lines print that are typed in one process.
  local function said(typed)
    put('typed', (typed:gsub('FOLDER', folder)))
    local text, status = folders.run(('TZ=UTC LC_ALL=C HOME=%s RIDGE_DB=%s/a.db RIDGE_LOCKS=%s '
      .. 'XDG_DATA_HOME= RIDGE_PATH= RIDGE_GPU=/none TERM=dumb '
      .. 'RIDGE_LUA="${RIDGE_LUA:+$(realpath "$RIDGE_LUA")}" sh -c \'root=$PWD; cd %s; '
      .. 'exec "$root/ridge" "$root/tests/lua/cli/approved_child.lua" typed said\'')
      :format(folder, folder, folder, folder))
    assert.equal(0, status, text)
    assert.equal('', text)
    local file = assert(io.open(folder .. '/said', 'rb'))
    text = file:read '*a'
    file:close()
    return approved.masked(text, { { folder:gsub('%p', '%%%0'), 'FOLDER' },
      { '%(LuaJIT [^)]*%)', '(LUAJIT)' } })
  end

  for name, typed in pairs(GROUPS) do
    it(name, function() approved.check('cli/' .. name, said(typed)) end)
  end

  it('numbers that are out of range', function()
    local help, typed = said(GROUPS.help), {}
    for command, text in (help .. '$'):gmatch '%$ ridge (%l[%l-]*) %-%-help\n(.-)\n%$' do
      for option in (command ~= 'help' and text or ''):gmatch '\n  [^\n]-(%-%-?%l[%l-]*) N ' do
        for _, value in ipairs(NUMBERS) do -- what is taken ends at the option behind it
          local form = option:find '^%-%-' and '%s %s=%s --zork' or '%s %s%s --zork'
          typed[#typed + 1] = form:format(command, option, value)
        end
      end
    end
    assert.is_true(#typed > 20 * #NUMBERS)
    local found, order = {}, {}
    for line, text in said(table.concat(typed, '\n') .. '\n'):gmatch '%$ ridge ([^\n]*)\n(.-)\n' do
      local key, value = line:match '^(%S+ %-%-[%l-]+)=(%S+)'
      if not key then key, value = line:match '^(%S+ %-%l)(%S+)' end
      if not found[key] then
        found[key] = { key .. ':' }
        order[#order + 1] = key
      end
      if not text:find("unknown option '--zork'", 1, true) then table.insert(found[key], value) end
    end
    for i, key in ipairs(order) do order[i] = table.concat(found[key], ' ') end
    approved.check('cli/refused', table.concat(order, '\n'))
  end)

  it('commands that nobody listed: there are none', function()
    local all = folders.run './ridge --help'
    local names = {}
    for name in all:match('\ncommands\n(.*)'):gmatch '  (%l[%l-]*) [^\n]*\n' do
      names[#names + 1] = name
    end
    assert.same(COMMANDS, names)
  end)
end)
