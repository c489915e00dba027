-- SPDX-License-Identifier: MIT
--- What the methods of a stored sweep give, which rows and options each picture of one is drawn
--- from, and what both say to what is wrong: of a database whose every row is written by hand
-- (tests/lua/cli/fixed_rows.lua).  tests/approved/sweep/GROUP.txt has the text.

local approved = dofile 'tests/lua/approved.lua'
local canonical = require 'ridge.store.canonical'
local fixed = dofile 'tests/lua/cli/fixed_rows.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local told = dofile 'tests/lua/told.lua'
local plot = require 'ridge.plot'
local ridge = require 'ridge'
local sqlite = require 'ridge.store.sqlite'

-- what fixed_rows has no place for: caches, curves, comparisons, a second run, a made-up GPU
local MORE = [[
UPDATE machine SET l1d = 32768, l2 = 1048576, l3 = 8388608;
UPDATE build SET dirty = 1;
INSERT INTO curve SELECT best_attempt, 'loss', 10, 2.5 - id / 10.0, 1500000000 FROM trial
  WHERE sweep_id = 1 AND id < 4;
INSERT INTO curve SELECT best_attempt, 'loss', 20, 2 - id / 10.0, 3000000000 FROM trial
  WHERE sweep_id = 1 AND id < 4;
INSERT INTO comparison(id, uuid, sweep, phase, cache, a, b, design, blocks, procs, looks, ratio,
    ci_lo, ci_hi, floor, margin, aa, verdict, at) VALUES
  (1, x'01', 'widths', 'fwd', 'warm', '{"kind":"linear","width":64}',
    '{"kind":"sketched","width":64}', 'ABBA', 12, 3, 1, 1.5, 1.4, 1.6, 0.001, 0.01, 0.002,
    'slower', 1000000),
  (2, x'02', 'widths', 'bwd', 'warm', '{"kind":"linear","rank":4}', '{"kind":"linear"}', 'ABBA',
    20, 2, 1, 0.5, 0.4, 0.6, NULL, 0.02, NULL, 'faster', 2000000);
INSERT INTO metric(attempt_id, name, value, unit, better)
  SELECT best_attempt, 'fwd_bytes', 1000 * id, 'B', 0 FROM trial WHERE sweep_id = 1 AND id < 6;
INSERT INTO sweep(id, uuid, name, base, generation, recipe_id, protocol_id, args, space, strategy,
    seed, state, created)
  SELECT 6, x'06', 'widths-2', 'widths', 2, recipe_id, protocol_id, args, space, strategy, seed,
    state, created FROM sweep WHERE id = 1;
INSERT INTO sweep(id, uuid, name, base, generation, recipe_id, protocol_id, args, space, strategy,
    seed, state, created)
  SELECT 7, x'07', 'widths-3', 'widths', 3, recipe_id, 1, args, space, strategy, seed,
    state, created FROM sweep WHERE id = 1;
INSERT INTO trial(id, uuid, sweep_id, config_id, ord, state, tries, best_attempt, passes)
  SELECT 101, x'65', 6, config_id, 1, 'ok', 1, best_attempt, 5 FROM trial WHERE id = 2;
UPDATE timing SET p95 = 2 * med WHERE attempt_id IN (SELECT id FROM attempt WHERE trial_id = 4);
INSERT INTO sweep(id, uuid, name, base, recipe_id, protocol_id, args, space, strategy, seed, state,
    created)
  SELECT 8, x'08', 'cube', 'cube', recipe_id, protocol_id, args, space, strategy, seed, state,
    created FROM sweep WHERE id = 1]]

-- Points of many parameters, none of them measured.
local CUBE = {
  { a = 1, b = 1, c = 7, dtype = 'f32', word = 'u' },
  { a = 2, b = 2, c = 8, dtype = 'f32', word = 'v' },
  { a = 1, b = 3, c = 7, dtype = 'f64', word = 'u' },
  { a = 2, b = 1, c = 8, dtype = 'f64', word = 'v' } }

local GROUPS = {}

GROUPS.methods = [[
tostring(sw)
#sw:results()
sw:results { role = 'anchor' }[1].state
ids(sw:results { grade = 'A' })
ids(sw:results { grade = 'B' })
ids(sw:results { grade = 'D' })
ids(sw:best 'fwd')
ids(sw:best('fwd', 3))
ids(sw:best('fwd', 99))
ids(sw:best('fwd.gflops', 2))
ids(sw:best('loss', 9))
ids(sw:best('fwd_cold', 9))
ids(sw:pareto { min = { 'fwd', 'loss' } })
ids(sw:pareto { min = 'fwd' })
ids(sw:pareto { max = 'fwd.gflops' })
ids(sw:pareto { min = 'loss', max = { 'fwd_gflops' } })
sw:exponent('fwd', 'width', { by = 'kind' })
sw:exponent('fwd', 'width')[1].text
sw:exponent('fwd.gflops', 'width')[1].text
sw:exponent('fwd', 'width', { where = 'trial ~= 6' })[1].text
sw:drift 'fwd'
sw:ceilings()
keys(sw:samples({ trial = 1 }, 'fwd'))
sw:samples({ trial = 1 }, 'fwd').dur
sw:samples({ trial = 1 }, 'bwd')
sw:results():where { width = { gt = 64, le = 128 } }:sort '-fwd':head(9).columns
ids(sw:results():where { width = { gt = 64, le = 128 } }:sort '-fwd')
ids(sw:results():where { width = { ge = 128, lt = 256 } })
ids(sw:results():where { width = { 64, 256 }, kind = 'linear' })
ids(sw:results():where { width = { ne = 64 } })
ids(sw:results():where { kind = { eq = 'sketched' }, ['fwd.gflops'] = { gt = 1 } })
ids(sw:results():where 'fwd.gflops > 1 and kind = "linear"')
ids(sw:results():where(function(row) return row.trial > 4 end))
ids(sw:results():sort 'kind')
ids(sw:results():sort '-kind')
ids(sw:results():sort 'fwd_ratio')
ids(sw:results():sort '-fwd_ratio')
ids(sw:results():head(2))
#sw:results():head()
sw:results():group 'kind':agg { n = 'count fwd', t = 'median fwd', g = 'max fwd.gflops' }
sw:results():group('kind', 'width'):agg { n = 'count loss' }
sw:results():agg { all = 'sum fwd', least = ' min  loss ' }
sw:results():pivot { rows = 'kind', cols = 'width', cell = 'fwd' }:text()
sw:results():pivot { rows = 'width', cols = 'batch', cell = 'fwd.gflops', agg = 'max' }:text()
tostring(sw:results():where { width = 64 }:group 'kind':agg { t = 'min fwd', a = 'max fwd' })
tostring(sw:results():where { width = 1 })
ids(old:best('fwd', 9))
tostring(ridge.open(path):sweep 'half')
-- what is wrong
sw:results { grade = 'E' }
sw:results { role = 'anker' }
sw:results { grad = 'A' }
sw:results(1)
sw:best()
sw:best(7)
sw:best('fwd', 0)
sw:best('fwd', 1.5)
sw:best('fwd', 'two')
sw:best 'fdw'
ids(sw:best 'fwd_flops')
sw:best 'width'
sw:pareto()
sw:pareto {}
sw:pareto { min = 7 }
sw:pareto { least = 'fwd' }
sw:exponent('fwd', 'kind')
sw:exponent('fwd', 'width', { where = 'kind = "none"' })
sw:exponent('fwd', 'batch')
sw:exponent('fwd', 'width', { by = 3 })
sw:exponent('fwd', 'width', { With = 3 })
sw:compare()
sw:compare(3)
sw:compare {}
sw:compare(old)
sw:run()
sw:ab {}
sw:dry_run()
sw.nothing
ridge.open(path):sweep 'nothing'
ridge.open(path):sweep 'widhts'
ridge.open()
ridge.open(path .. '.none')
few:where { widht = 64 }
few:where 'widht > 1'
sw:results():where { width = 'a' }
sw:results():where { kind = 3 }
sw:results():where { width = { above = 64 } }
sw:results():where(7)
sw:results():where()
sw:results():where 'kind > 3'
few:sort 'fdw'
sw:results():head(0)
sw:results():head 'all'
few:group 'knid'
sw:results():group 'kind':agg { t = 'medain fwd' }
sw:results():group 'kind':agg { t = 'fwd' }
few:group 'kind':agg { t = 'median fdw' }
few:pivot { rows = 'kind', cols = 'width' }
few:pivot()
few:pivot { rows = 'kind', cols = 'width', cell = 'fwd', agg = 'mode' }
few:pivot { rows = 3, cols = 'width', cell = 'fwd' }
few:pivot { rows = 'kind', cols = 'widht', cell = 'fwd' }
]]

GROUPS.declared = [[
tostring(ridge.sweep 'a' { space = { k = { 1, 2 } }, measure = print })
ridge.sweep()
ridge.sweep(7)
ridge.sweep ''
ridge.sweep 'a b'
ridge.sweep 'a' {}
ridge.sweep 'a' ()
ridge.sweep 'a' { space = { k = { 1 } } }
ridge.sweep 'a' { space = { k = {} }, measure = print }
ridge.sweep 'a' { space = { k = { 1, 1 } }, measure = print }
ridge.sweep 'a' { space = { k = 3 }, measure = print }
ridge.sweep 'a' { space = { k = { {} } }, measure = print }
ridge.sweep 'a' { space = { ['a b'] = { 1 } }, measure = print }
ridge.sweep 'a' { space = {}, measure = print }
ridge.sweep 'a' { space = { k = { 1 } }, measure = 'print' }
ridge.sweep 'a' { space = { k = { 1 } }, mesure = print }
ridge.sweep 'a' { space = { k = { 1 } }, measure = print, where = 'j > 1' }
ridge.sweep 'a' { space = { k = { 1 } }, measure = print, where = 'k > ' }
ridge.sweep 'a' { space = { k = { 1 } }, measure = print, where = 'k > 1' }
ridge.sweep 'a' { space = { k = { 1 } }, measure = print, samples = 0 }
ridge.sweep 'a' { space = { k = { 1 } }, measure = print, samples = 3 }
ridge.sweep 'a' { space = { k = ridge.random(1, 9) }, measure = print }
ridge.sweep 'a' { space = { k = { 1 } }, measure = print, anchor = { j = 1 } }
ridge.sweep 'a' { space = { k = { 1 }, j = { 1 } }, measure = print, anchor = { j = 1 } }
ridge.sweep 'a' { space = { k = { 1 } }, measure = print, tries = { lost = 0 } }
ridge.sweep 'a' { space = { k = { 1 } }, measure = print, tries = { error = 2 } }
ridge.sweep 'a' { space = { k = { 1 } }, measure = print, monotone = { oom = { 'j' } } }
ridge.sweep 'a' { space = { k = { 1 } }, measure = print, monotone = { none = { 'k' } } }
ridge.sweep 'a' { space = { k = { 'a' } }, measure = print, monotone = { oom = { 'k' } } }
ridge.sweep 'a' { space = { k = { 1 } }, measure = print, monotone = { oom = 'k' } }
ridge.sweep 'a' { space = { k = { 1 } }, measure = print, timeout = 0 }
ridge.sweep 'a' { space = { k = { 1 } }, measure = print, seed = 1.5 }
declared:run { db = 7 }
declared:run { workers = 0 }
declared:run { workers = 1025 }
declared:run { isolate = 'some' }
declared:run { timing = 'alone' }
declared:run { budget = 'soon' }
declared:run { shard = '3/2' }
declared:run { memory = 0 }
declared:run { databse = 'x' }
declared:dry_run { shard = '0/2' }
declared:results { db = path }
declared:best('fwd')
declared:plot 'map'
declared:ceilings()
declared:samples({ trial = 1 }, 'fwd')
declared:exponent('fwd', 'k')
declared:compare(sw)
]]

-- What a picture is drawn from, without the drawing: the options that were found for it, and the
-- fields of its rows that the sweep itself does not have, or those that are named.
GROUPS.pictures = [[
drawn('map', { x = 'width', y = 'batch' })
drawn('map', { x = 'width', y = 'batch', z = 'fwd.gflops' })
drawn('map', { x = 'width', y = 'batch', z = 'loss', facet = 'batch', time = 'med' })
drawn('map', { y = 'width' })
drawn('map', { x = 'width' })
drawn('map')
drawn('uncertainty', { x = 'width', y = 'batch', title = 'mine', commit = 'c', better = 'higher' })
drawn('efficiency', { x = 'width', y = 'batch' }, 'trial', 'fwd_roof', 'fwd_bound')
drawn('efficiency', { x = 'width', y = 'batch', z = 'loss' })
drawn('ratio', { a = 'kind=linear', b = 'kind=sketched', x = 'width', y = 'batch' }, 'trial',
  'fwd_ratio', 'fwd_ratio_lo', 'fwd_ratio_hi', 'partner')
drawn('ratio', { a = 'kind=linear', b = 'kind=sketched', x = 'width', y = 'batch', time = 'quiet' })
drawn('ratio', { x = 'width', y = 'batch' })
drawn('ratio', { a = 'kind', b = 'kind=sketched', x = 'width', y = 'batch' })
drawn('slices')
drawn('slices', { x = 'kind', y = 'loss' })
drawn('slices', { by = 'kind' })
drawn('slices', { facet = 'kind' })
drawn('steps', { x = 'width' })
drawn('steps', { x = 'width', y = 'fwd' })
drawn('steps', { x = 'width', facet = 'batch' }, 'trial', 'configuration')
drawn('steps', { x = 'batch' }, 'trial', 'configuration')
drawn('threads')
drawn('threads', { y = 'loss', x = 'width' })
drawn('effects')
drawn('effects', { params = 'width' })
drawn('roofline', nil, 'trial', 'roof', 'value', 'value_lo', 'value_hi', 'threads', 'fwd_roof',
  'fwd_bound', 'state')
drawn('pareto', { x = 'fwd', y = 'loss' })
drawn('pareto', { x = 'loss', y = 'fwd.gflops' })
drawn('forest', nil, 'pair', 'a', 'b', 'phase', 'ratio', 'ratio_lo', 'ratio_hi', 'verdict',
  'margin', 'aa', 'floor', 'blocks', 'at', 'state')
drawn('samples', { trials = '3' }, 'trial', 'point', 'sample', 'ns', 'at', 'disturbed', 'grade',
  'flags')
drawn('samples', { trials = ' 1 , 5' }, 'trial', 'point', 'sample', 'ns')
drawn('samples')
drawn('distribution', { y = 'fwd', trials = '5' }, 'trial', 'sample', 'grade', 'flags')
drawn('training', nil, 'trial', 'point', 'step', 'seconds', 'loss', 'state', 'kind', 'width',
  'batch')
drawn('history', nil, 'trial', 'run', 'commit', 'env', 'began', 'fwd')
drawn('stability')
drawn('landscape')
of('cube', 'map')
of('cube', 'map', { x = 'b' })
of('cube', 'map', { y = 'b' })
of('cube', 'map', { x = 'b', y = 'c', facet = 'word' })
of('cube', 'uncertainty')
of('cube', 'ratio', { a = 'dtype=f32', b = 'dtype=f64' })
of('cube', 'ratio', { a = 'dtype=f32', b = 'word=u', y = 'c', facet = 'b' })
of('cube', 'slices', nil, 'trial', 'configuration')
of('cube', 'slices', { by = 'word' }, 'trial', 'configuration')
of('cube', 'slices', { facet = 'c', x = 'a' }, 'trial', 'configuration')
of('cube', 'steps', { by = 'b' }, 'trial', 'configuration')
of('cube', 'history', nil, 'run')
of('cube', 'effects')
of('old', 'slices')
of('old', 'samples', { trials = '13' }, 'trial', 'point', 'sample', 'ns')
of('old', 'history', nil, 'run', 'trial', 'commit')
of('empty', 'slices', { x = 'k' })
of('half', 'effects')
of('widths-2', 'effects')
of('widths-3', 'history', { by = 'kind' }, 'run')
-- what is wrong
drawn('slices', { y = 'loss', time = 'quiet' })
drawn('training', { time = 'quiet' })
drawn('mapp')
drawn('training', { y = 'accuracy' })
drawn('samples', { trials = '99' })
drawn('samples', { trials = 'a' })
drawn('samples', { y = 'bwd' })
of('old', 'forest')
of('old', 'efficiency', { x = 'k', y = 'k' })
of('empty', 'efficiency', { x = 'a', y = 'b' })
of('old', 'efficiency', { x = 'k', y = 'n' })
of('old', 'map')
of('old', 'map', { x = 'k', y = 'k' })
of('empty', 'slices')
of('empty', 'training')
sw:plot()
sw:plot(7)
]]

describe('of a stored sweep', function()
  local folder, env

  local function ids(rows)
    local list = {}
    for i, row in ipairs(rows) do list[i] = row.trial end
    return list
  end

  local function keys(t)
    local list = {}
    for key in pairs(t) do list[#list + 1] = key end
    table.sort(list)
    return list
  end

  -- A picture's options, then of each row the columns that are named, else which trials there are.
  local function picture(sw, kind, opt, ...)
    local columns, seen, original = { ... }, nil, plot.draw
    plot.draw = function(drawn_kind, rows, options)
      seen = { drawn_kind, rows, options }
      return {}
    end
    local ok, err = pcall(sw.plot, sw, kind, opt)
    plot.draw = original
    if not ok then error(err, 0) end
    assert.equal(kind, seen[1])
    local options = {}
    for name, value in pairs(seen[3]) do
      if name ~= 'database' and name ~= 'version' then options[name] = value end
    end
    if #columns == 0 then return options, ids(seen[2]) end
    local rows = {}
    for i, row in ipairs(seen[2]) do
      rows[i] = {}
      for _, name in ipairs(columns) do rows[i][name] = row[name] end
    end
    return options, rows
  end

  setup(function()
    folder = folders.new()
    local path = folder .. '/a.db'
    fixed.make(path)
    local db = sqlite.open(path, 'write')
    db:exec(MORE)
    for i, params in ipairs(CUBE) do
      local config = db:insert('config', { sha = sqlite.blob('cube' .. i),
        params = canonical.encode(params) })
      for name, v in pairs(params) do
        db:insert('param', { config_id = config, name = name, num = tonumber(v),
          txt = type(v) == 'string' and v or nil })
      end
      db:insert('trial', { id = 110 + i, uuid = sqlite.blob('trial' .. i), sweep_id = 8, ord = i,
        config_id = config, state = 'pending' })
    end
    db:close()
    local here = ridge.open(path)
    local sw = here:sweep 'widths'
    local few = sw:results():group('kind', 'width'):agg { fwd = 'median fwd' }
    env = { ridge = ridge, path = path, sw = sw, old = here:sweep 'old', ids = ids, keys = keys,
      few = few,
      declared = ridge.sweep 'nowhere' { space = { k = { 1, 2 } }, measure = print },
      drawn = function(...) return picture(sw, ...) end,
      of = function(name, ...) return picture(here:sweep(name), ...) end }
    env.declared.db = path
  end)
  teardown(function() folders.remove(folder) end)

  for name, lines in pairs(GROUPS) do
    it(name .. ' say what was approved', function()
      local text = told.all(lines, env)
      approved.check('sweep/' .. name, approved.masked(text, {
        { folder:gsub('%p', '%%%0'), 'FOLDER' } }))
    end)
  end
end)
