-- SPDX-License-Identifier: MIT
--- Sweeps: measure a function over a space of parameters, keep everything, go on after anything.
--
-- >> local sw = ridge.sweep 'widths' { space = { width = ridge.geom(64, 1024) },
-- >>   setup = function(p) return { x = ridge.ones(8, p.width) } end,
-- >>   measure = function(p, c, m)
-- >>     m:time('relu', ridge.capture(function() return c.x:relu() end))
-- >>   end }
-- >> sw:run{ db = 'widths.db' }
--
-- A sweep is its name and its content: the source of its functions, `args`, `space`, `protocol` and
-- `seed`. The same again goes on where it was; something else under the same name is an error.

local blame = require 'ridge.blame'
local guard = require 'ridge.guard'
local canonical = require 'ridge.store.canonical'
local identity = require 'ridge.store.identity'
local options = require 'ridge.options'
local override = require 'ridge.sweep.override'
local results = require 'ridge.store.results'
local analysis = require 'ridge.sweep.analysis'
local drift = require 'ridge.sweep.drift'
local part = require 'ridge.sweep.part'
local rows_of = require 'ridge.sweep.rows'
local rules = require 'ridge.store.rules'
local run = require 'ridge.sweep.run'
local sha256 = require 'ridge.store.sha256'
local shown = require 'ridge.sweep.shown'
local space = require 'ridge.sweep.space'
local store = require 'ridge.store'
local unlike = require 'ridge.sweep.unlike'

local M = { range = space.range, geom = space.geom, between = space.between, logs = space.logs,
  probe = space.probe, random = space.random, any = space.any, when = space.when }

local SPEC = {
  space    = { 'table', required = true, doc = 'parameter name to its values' },
  where    = { 'function|string', doc = "keeps a combination: a function, or 'a * b <= 2^20'" },
  samples  = { 'integer', min = 1, max = 1e6, doc = 'random points instead of the whole grid' },
  anchor   = { 'table', doc = 'a point measured again after every 20 others' },
  setup    = { 'function', doc = 'setup(p, m) returns the context c of a point' },
  check    = { 'function', doc = 'check(p, c): false, or nil and why, when c is wrong' },
  measure  = { 'function', required = true, doc = 'measure(p, c, m) says what to time' },
  any_name = { 'boolean', default = false,
               doc = 'what the recipe measured under other names is the same: parameters say all' },
  partner  = { 'function', doc = 'partner(p): the point timed beside p in every pass, or nil' },
  reuse_setup = { 'boolean', default = false,
                  doc = 'set a point up once and keep it over its passes, in one process' },
  protocol = { 'table|string', doc = "how to measure: a level ('quick', 'demo', ...) or fields" },
  seed     = { 'integer', default = 0, doc = 'orders the points and seeds their draws' },
  timeout  = { 'number', min = 0.001, doc = 'seconds for a point, after which it is killed' },
  tries    = { 'table', doc = 'tries of a point by how they fail: lost, crashed, oom, timeout' },
  monotone = { 'table', doc = 'outcome to parameters of which more makes it only worse' },
  args     = { 'table', doc = 'what the recipe was called with' },
  device   = { 'string', doc = "where points run: 'cpu', 'cuda:0' ..." },
}

local RUN = {
  db       = { 'string', doc = 'database file; else RIDGE_DB, else results/ridge.db' },
  new      = { 'boolean', default = false, doc = 'start another sweep of this name' },
  reuse    = { 'boolean', default = true, doc = 'take what another space of it has measured' },
  choices  = { 'boolean', doc = 'take the paths that ridge autotune found; else RIDGE_CHOICES' },
  probe    = { 'boolean', default = false,
               doc = 'measure what products take, if it is not known of this machine' },
  progress = { 'boolean|string', doc = "'live', 'bar', 'plain', 'off' or false" },
  calibrate = { 'boolean|string', default = true, choices = { true, false, 'long' },
                doc = "measure ceilings and noise if none are stored; 'long': at length" },
  workers  = { 'integer', default = 1, min = 1, max = 1024, doc = 'processes that work at once' },
  isolate  = { 'string', default = 'auto', choices = { 'auto', 'always', 'never' },
               doc = 'a process for each point: from the first crash on, always, never' },
  timing   = { 'string', default = 'exclusive', choices = { 'exclusive', 'shared' },
               doc = 'shared: others may work while this times; flagged SHARED' },
  budget   = { 'number|string', doc = "seconds, or '90s', '15m', '2h', '1h30m'" },
  memory   = { 'number', min = 1, doc = 'bytes a worker may allocate' },
  shard    = { 'string', doc = "'2/8': the second of eight parts; auto, auto/8: of an array job" },
  lab      = { 'table', doc = 'ridge.sweep.lab, or what stands in for it' },
}

local RESULTS = {
  db   = { 'string' },
  role = { 'string', choices = { 'point', 'anchor' }, default = 'point' },
  grade = { 'string', choices = { 'A', 'B', 'C', 'D' }, doc = 'at least this one' },
  mixed = { 'boolean', default = false, doc = 'points of unlike machines as if they were of one' },
}

local TRIES = {}
for outcome, n in pairs(rules.TRIES) do
  TRIES[outcome] = { 'integer', default = n, min = 1, max = 1000 }
end

local Sweep = {}
Sweep.__index = Sweep

-- Source -------------------------------------------------------------------------------------

local function source_of(fn)
  local info = debug.getinfo(fn, 'S')
  local first = info.source:sub(1, 1)
  if first == '@' then
    local file = io.open(info.source:sub(2), 'rb')
    if file then
      local text = file:read '*a'
      file:close()
      return info.short_src:match '[^/]+$', text
    end
    -- ridge's own, embedded in the program
    local host = package.loaded['ridge.host']
    local embedded = host and host.source and host.source(info.source:sub(2))
    if embedded then return info.short_src:match '[^/]+$', embedded end
  elseif first ~= '=' then
    return 'typed', info.source
  end
  -- no text to be had: the compiled function stands for itself
  local ok, code = pcall(string.dump, fn, true)
  return info.short_src, ('%s:%d %s'):format(info.source, info.linedefined,
    ok and sha256.hex(sha256.digest(code)) or '')
end

-- The text that says what is measured: the files in which the recipe's functions stand.
local function recipe_of(sw)
  local spec = { measure = sw.spec.measure, setup = sw.spec.setup, check = sw.spec.check,
    where = sw.recipe_where, partner = sw.spec.partner }
  local seen, texts, name = {}, {}, nil
  for _, key in ipairs { 'measure', 'setup', 'check', 'where', 'partner' } do
    if type(spec[key]) == 'function' then
      local from, text = source_of(spec[key])
      name = name or from
      if not seen[text] then
        seen[text] = true
        texts[#texts + 1] = text
      end
    end
  end
  return name, table.concat(texts, '\n')
end

-- Making -------------------------------------------------------------------------------------

local function check_monotone(monotone, params)
  for outcome, names in pairs(monotone or {}) do
    if not rules.TRIES[outcome] or type(names) ~= 'table' then
      blame.raise(('sweep: monotone has %s; expected oom or timeout and a list of parameters')
        :format(tostring(outcome)), 'EARG', 'sweep')
    end
    for _, name in ipairs(names) do
      if params[name] == nil then
        blame.raise(('sweep: monotone names %s, which is no parameter'):format(tostring(name)),
          'EARG', 'sweep')
      end
    end
  end
end

local function declare(name, given)
  identity.check_name(name)
  local own = options.check(SPEC, given, 'sweep')
  local spec = override.apply(own)
  spec.protocol = spec.protocol or {}
  spec.tries = options.check(TRIES, spec.tries or {}, 'sweep: tries')
  check_monotone(spec.monotone, spec.space)
  local plan = space.expand(spec.space, spec.where, spec.seed, spec.anchor, spec.samples)
  -- the recipe's own condition is part of its text; one that was typed shows in the points
  return setmetatable({ name = name, spec = spec, plan = plan, recipe_where = own.where }, Sweep)
end

--- Declare a sweep; nothing is measured and no file is touched before `run`.
-- >> local sw = ridge.sweep 'widths' { space = { width = { 64, 128 } }, measure = fn }
---@param name string letters, digits, "_", "-", "."
---@return function declare takes the table and returns the sweep
function M.sweep(name)
  identity.check_name(name)
  return function(given) return declare(name, given) end
end

-- What runs this recipe again in other processes: its name or path and its arguments; nil where
-- nothing would, as in lab.command.
local function origin()
  local host, argv = package.loaded['ridge.host'], rawget(_G, 'arg')
  if not (host and host.settings and host.settings.restarts and argv and argv[0]) then
    return nil
  end
  local words = canonical.list {}
  for i, word in ipairs(argv) do words[i] = word end
  return { name = argv[0], argv = words, override = override.given }
end

--- What the recipe was called with; the device is part of it, so that what was measured on one is
--- never taken for what another would have shown.
---@return table args  as the store keeps them
function Sweep:arguments()
  local args = {}
  for key, value in pairs(self.spec.args or {}) do args[key] = value end
  local device = self.spec.device
  if device and device ~= 'cpu' then args.device = device end
  return args
end

-- What the store knows a sweep by.
local function wanted_of(sw, protocol)
  local spec = sw.spec
  local name, text = recipe_of(sw)
  return { name = sw.name, recipe_name = name, recipe = text,
    args = canonical.encode(sw:arguments()), space = sw.plan.text,
    protocol = canonical.encode(protocol), seed = spec.seed, n_rejected = sw.plan.n_rejected,
    strategy = spec.samples and 'random' or 'grid',
    rules = canonical.encode { tries = spec.tries, monotone = spec.monotone,
      typed = override.given and override.given.typed },
    trials = sw.plan.trials }
end

-- What --db names stands above the recipe's own file, for its rows as for its run.
local function db_of(self, db)
  return override.run and override.run.db or db or self.db
end

local function run_options(opt, device)
  local all = options.over({}, opt, 'sw:run')
  for key, value in pairs(override.run or {}) do all[key] = value end
  opt = options.check(RUN, all, 'sw:run')
  opt.db = opt.db or store.default_path()
  opt.lab = opt.lab or require('ridge.sweep.device').lab(device)
  return opt
end

--- Measure what is not measured yet. Killed at any moment, the same call goes on.
-- >> sw:run { workers = 4, budget = '2h' }
---@param opt table|nil db, new, progress, calibrate, choices, probe, workers, isolate, timing,
---  budget, memory, shard, lab
---@return table summary name, path, counts (state to number), failed, stopped ('budget' or nil)
-- Raises an error of code EINTR after Ctrl-C, with everything saved (exit status 130).
function Sweep:run(opt)
  if M.intercept then M.intercept(self) end
  if override.instead then return override.instead(self, opt) end
  opt = run_options(opt, self.spec.device)
  local spec = self.spec
  local protocol = opt.lab.protocol(spec.protocol)
  local wanted = wanted_of(self, protocol)
  opt.budget, opt.shard = part.seconds(opt.budget), part.shard(opt.shard)
  local summary = run.run({ setup = spec.setup, check = spec.check, measure = spec.measure,
    partner = spec.partner, reuse_setup = spec.reuse_setup, protocol = protocol,
    timeout = spec.timeout, any_name = spec.any_name }, wanted, opt)
  self.db, self.stored_as = summary.path, summary.name
  if override.ended then override.ended(summary) end
  return summary
end

--- What `run` would do, without doing it; no file is made or changed.
-- >> sw:dry_run().to_run
---@param opt table|nil as for `run`
---@return table facts grid (all combinations), removed (by where), points, elsewhere (in other
---  shards), done, reused, to_run, text, seconds (a guess from what is stored, nil without any)
function Sweep:dry_run(opt)
  opt = run_options(opt, self.spec.device)
  opt.shard, opt.any_name = part.shard(opt.shard), self.spec.any_name
  return require('ridge.sweep.dry').run(self.plan, wanted_of(self,
    opt.lab.protocol(self.spec.protocol)), opt)
end

-- Comparing ----------------------------------------------------------------------------------

--- Called with a sweep instead of running it, by who only wants the sweep of a recipe.
M.intercept = nil

--- Is this value a sweep?
---@param value any
---@return boolean
function M.is(value) return getmetatable(value) == Sweep end

--- Hold the points that `a` describes against those that `b` describes, pair by pair, in paired
--- blocks timed now, both set up anew for each block; in fresh processes when a recipe runs, else
--- in this one.
-- >> sw:ab { a = { impl = 'naive' }, b = { impl = 'blocked' }, match = { 'batch', 'width' } }
---@param opt table a, b, match, phases, db, keep, progress; and processes, rigorous, blocks, looks,
---  margin, slot_ns, check, tolerance, protocol of measure.ab
---@return table results as of measure.ab, with pair, phase and q (corrected for their number)
function Sweep:ab(opt)
  if M.intercept then M.intercept(self) end
  if override.instead_ab then return override.instead_ab(self, opt) end
  local given = options.over({}, opt, 'sw:ab')
  if given.processes ~= 1 and not given.lab then given.origin = given.origin or origin() end
  given.db = db_of(self, given.db)
  return require('ridge.sweep.ab').run(self, given)
end

--- Hold the stored results of two databases against each other: unpaired, see ridge.sweep.compare.
-- >> for _, found in ipairs((ridge.compare('main.db', 'pr.db'))) do print(found.verdict) end
---@param a string database file
---@param b string database file
---@param opt table|nil sweep, match, margin, mixed (also where points of one of them are of unlike
---  machines)
---@return table results
---@return integer alone timings that only one of them has
---@return string|nil apart how far their machines are apart by the anchors, where they are unlike
function M.compare(a, b, opt) return require('ridge.sweep.compare').databases(a, b, opt) end

-- Reading ------------------------------------------------------------------------------------

local function read(self, db, what, fn)
  if override.reads then override.reads(self) end
  local path = db_of(self, db) or store.default_path()
  local st = store.open(path, 'read')
  local ok, result = pcall(function()
    local sweep = identity.find(st, self.stored_as or self.name)
    if not sweep then
      blame.raise(('%s: there is no sweep %s in %s; sw:run() makes it'):format(what, self.name,
        st.path), 'EARG', what)
    end
    return fn(st, sweep)
  end)
  st:close()
  if not ok then error(result, 0) end
  return result
end

--- All points as plain tables: parameters, phases (`fwd`, `fwd_lo`, `fwd_hi`, `fwd_p95` ..., ns)
-- and metrics by name, with state, grade, flags and reason; also those not measured yet.
-- Where points are of unlike machines rows have `machine` and `cpu`, too, and what makes one number
-- or picture of rows refuses those of several.
---@param opt table|nil db; role 'point' (default) or 'anchor'; grade: measured at least so well;
---  mixed: points of unlike machines are taken as if they were of one
---@return table rows a list, with where, group, agg, sort, head, pivot (ridge.sweep.rows)
-- >> sw:results{ grade = 'B' }:where 'batch >= 64':sort '-fwd.gflops':head(5)
function Sweep:results(opt)
  opt = options.check(RESULTS, opt, 'sw:results')
  return read(self, opt.db, 'sw:results', function(st, sweep)
    local rows = rows_of.new(results.rows(st, sweep.id, opt.role))
    if not opt.mixed then unlike.tag(st, sweep, rows, opt.role) end
    if not opt.grade then return rows end
    return rows:where(function(row) return row.grade ~= nil and row.grade <= opt.grade end)
  end)
end

--- What the machine did to a phase while the sweep ran, by the anchor, and the points without it.
-- >> print(sw:drift('fwd').text)
---@param phase string
---@return table|nil drift see ridge.sweep.drift; nil without an anchor that was measured twice
-- Raises EARG where points or anchors are of unlike machines: each drifts by itself.
function Sweep:drift(phase)
  local points, anchors = self:results(), self:results { role = 'anchor' }
  for _, rows in ipairs { points, anchors } do
    unlike.check(rows, 'sw:drift', 'each drifts by itself, in a file of its own')
  end
  return drift.of(points, anchors, phase)
end

--- The points that none beats in all of these measures by more than the intervals.
-- >> sw:pareto{ min = { 'fwd', 'peak_bytes' }, max = { 'accuracy' } }
---@param opt table min, max: columns; mixed: also points of unlike machines
---@return table rows
function Sweep:pareto(opt)
  opt = options.check({ min = { 'table|string' }, max = { 'table|string' },
    mixed = RESULTS.mixed }, opt, 'sw:pareto')
  local rows = self:results { mixed = opt.mixed }
  unlike.check(rows, 'sw:pareto', 'mixed = true takes them as if they were of one')
  return rows_of.new(analysis.pareto(rows, opt))
end

--- How a time grows with a parameter: the exponent with two standard errors, and where it changes.
-- >> sw:exponent('fwd', 'width', { by = 'batch' })[1].text
---@param y string a phase or metric
---@param x string a parameter
---@param opt table|nil by: a column, one answer for each of its values; where: which rows; mixed:
---  also points of unlike machines
---@return table list each exponent, err, from, to, n, text; at a break: at, before, after, cause
function Sweep:exponent(y, x, opt)
  opt = options.check({ by = { 'string' }, where = { 'string|table' }, mixed = RESULTS.mixed }, opt,
    'sw:exponent')
  local machine = read(self, nil, 'sw:exponent', function(st, sweep)
    return st.db:row([[/* machine of a sweep */ SELECT m.l1d, m.l2, m.l3 FROM main.trial t
      JOIN main.attempt a ON a.id = t.best_attempt JOIN main.env e ON e.id = a.env_id
      JOIN main.machine m ON m.id = e.machine_id WHERE t.sweep_id = ? LIMIT 1]], sweep.id) or {}
  end)
  machine.by = opt.by
  local rows = self:results { mixed = opt.mixed }
  rows = opt.where and rows:where(opt.where) or rows
  if not unlike.named(opt.by) then
    unlike.check(rows, 'sw:exponent', "by = 'machine' keeps them apart, "
      .. "where = { machine = 'm...' } asks for one, mixed = true for all")
  end
  local list = analysis.exponent(rows, (y:gsub('%.', '_')), x, machine)
  for _, found in ipairs(list) do found.text = analysis.words(found) end
  return list
end

--- The best points by a phase or metric; points of grade D have no say. Where points are of unlike
--- machines none is best.
-- >> sw:best('fwd_gflops', 5)
---@param name string `fwd_gflops`, or with a dot, `fwd.gflops`
---@param n integer|nil how many, default 1
---@return table rows best first
function Sweep:best(name, n)
  if type(name) ~= 'string' then
    blame.raise(('sw:best: expected a name first, got %s'):format(type(name)), 'EARG', 'sw:best')
  end
  n = options.count(n, 'sw:best', 'how many') or 1
  name = name:gsub('%.', '_')
  return read(self, nil, 'sw:best', function(st, sweep)
    unlike.refuse(st, { sweep }, 'sw:best',
      "ridge.query(name, { where = 'machine = \"m...\"' }) asks for one")
    local direction = results.directions(st, sweep.id)
    if (direction[name] or 0) == 0 then
      local known = {}
      for key in pairs(direction) do known[#known + 1] = key end
      table.sort(known)
      local near = not direction[name] and blame.near(name, known)
      blame.raise(('sw:best: nobody said which way %s is better%s'):format(name,
        near and (" (did you mean '%s'?)"):format(near)
        or "; m:metric takes better = 'lower' or 'higher'"), 'EARG', 'sw:best')
    end
    local rows = {}
    for _, row in ipairs(results.rows(st, sweep.id)) do
      local value = row[name]
      if value and value == value and row.state == 'ok' and row.grade ~= 'D' then
        rows[#rows + 1] = row
      end
    end
    table.sort(rows, function(a, b)
      if a[name] ~= b[name] then return (a[name] - b[name]) * direction[name] > 0 end
      return a.trial < b.trial
    end)
    for i = #rows, n + 1, -1 do rows[i] = nil end
    return rows
  end)
end

--- The newest measured ceilings and noise of the machine that this sweep ran on.
---@return table list each name ('fma.f32', 'triad.dram', 'noise.aa' ...), threads, value, unit,
---  ci_lo, ci_hi
function Sweep:ceilings()
  return read(self, nil, 'sw:ceilings', function(st, sweep)
    local device = st.db:value([[/* device of a sweep */ SELECT e.device_id FROM main.trial t
      JOIN main.attempt a ON a.id = t.best_attempt JOIN main.env e ON e.id = a.env_id
      WHERE t.sweep_id = ? ORDER BY a.id DESC LIMIT 1]], sweep.id)
    return device and st:ceilings(device) or {}
  end)
end

--- A picture of what is stored.
-- >> sw:plot('map', { x = 'batch', y = 'width', z = 'fwd.gflops' }):save 'map.png'
---@param kind string 'map', 'slices', 'roofline', 'pareto' ...: `ridge plot --help` lists them
---@param opt table|nil of the kind; what is left out is found in the sweep
---@return table figure with save(path, {theme =, scale =, size =})
function Sweep:plot(kind, opt)
  return read(self, nil, 'sw:plot', function(st, sweep)
    return require('ridge.sweep.picture').figure(kind, st, sweep, opt)
  end)
end

--- The raw samples of a phase of a point.
---@param row table from results()
---@param phase string
---@return table|nil samples dur (ns a call), at (ns since t0), mark, t0, inner; nil when not timed
function Sweep:samples(row, phase)
  return read(self, nil, 'sw:samples', function(st)
    return results.samples(st, row.trial, phase)
  end)
end

-- Stored databases -------------------------------------------------------------------------

local Stored = {}
Stored.__index = Stored

--- A results database, for reading.
-- >> ridge.open 'old.db':sweep 'widths':best('fwd_gflops')
---@param path string
---@return table database sweeps(), sweep(name)
function M.open(path)
  if type(path) ~= 'string' then
    blame.raise(('open: the path of a database is expected, got %s'):format(blame.show(path)),
      'EARG', 'open')
  end
  store.open(path, 'read'):close() -- what is wrong with the file is said now
  return setmetatable({ path = path }, Stored)
end

--- What sweeps there are, the newest first.
---@return table rows
function Stored:sweeps() return require('ridge.store.ask').sweeps { db = self.path } end

--- A stored sweep: everything of a sweep that reads (results, best, pareto, exponent, plot,
--- samples, ceilings, compare), nothing that measures.
---@param name string
---@return table sweep
function Stored:sweep(name)
  local st = store.open(self.path, 'read')
  local ok, found = pcall(require('ridge.store.query').sweep, st, name)
  st:close()
  if not ok then error(found, 0) end
  return setmetatable({ name = found.name, stored_as = found.name, db = self.path }, shown.sweeps {
    __parent = Sweep,
    __index = function(_, key)
      if key == 'run' or key == 'ab' or key == 'dry_run' then
        blame.raise(('%s reads a stored sweep; sw:%s needs the recipe that declares it'):format(
          'ridge.open', key), 'EARG')
      end
      return Sweep[key]
    end })
end

--- Hold the stored results against those of another sweep, of this database or of another one,
--- unpaired: b is the other one.
-- >> ridge.open 'old.db':sweep 'widths':compare(ridge.open 'new.db':sweep 'widths')
---@param other table a sweep that has run, or a stored one; not this very one
---@param opt table|nil mixed = true: also where points of one of them are of unlike machines
---@return table results as of ridge.sweep.compare
function Sweep:compare(other, opt)
  if not (type(other) == 'table' and other.db and self.db) then
    blame.raise('sw:compare: two sweeps that have run are needed', 'EARG', 'sw:compare')
  end
  local function side(sw) return { db = sw.db, name = sw.stored_as or sw.name } end
  return (require('ridge.sweep.compare').sweeps(side(self), side(other), opt))
end

guard.all(Sweep)
shown.sweeps(Sweep)
guard.all(Stored)

return setmetatable(M, { __call = function(_, name) return M.sweep(name) end })
