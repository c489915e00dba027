-- SPDX-License-Identifier: MIT
--- Pictures of a stored sweep: which rows each kind draws, what is drawn across and upwards when
--- nobody says, and what figures say of where they come from.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local comparison = require 'ridge.store.comparison'
local kinds = require 'ridge.plot.kinds'
local pairing = require 'ridge.sweep.pairing'
local plot = require 'ridge.plot'
local results = require 'ridge.store.results'
local roof = require 'ridge.measure.roof'
local schema = require 'ridge.store.schema'
local unlike = require 'ridge.sweep.unlike'

local M = {}

--- What pictures call a simulated device.
M.SIMULATED = '%s (simulated: its times say nothing of any GPU)'

-- -- Where it comes from ----------------------------------------------------------------------

local ORIGIN = [[/* origin of a sweep */ SELECT m.cpu, m.l1d, m.l2, m.l3, b.git, b.dirty,
    e.device_id, a.began, d.kind, d.name AS device_name, d.facts
  FROM main.attempt a JOIN main.env e ON e.id = a.env_id
  JOIN main.machine m ON m.id = e.machine_id JOIN main.build b ON b.id = e.build_id
  JOIN main.device d ON d.id = e.device_id
  WHERE a.id = ?]]

local function day(us) return os.date('!%Y-%m-%d', us / 1e6) end

local function origin_of(st, sweep_id)
  local newest = results.newest(st, sweep_id)
  return newest and st.db:row(ORIGIN, newest) or {}
end

-- The device by its name; that it is none is said wherever its numbers are drawn.
local function device_text(row)
  if row.kind == 'cpu' then return row.cpu end
  local facts = canonical.decode(row.facts or '{}')
  return facts.simulated and M.SIMULATED:format(row.device_name) or row.device_name
end

local function about(st, sweep)
  local row = origin_of(st, sweep.id)
  if row.kind and row.kind ~= 'cpu' then
    row.l1d, row.l3, row.l2 = nil, nil, canonical.decode(row.facts or '{}').l2
  end
  return { sweep = sweep.name, database = st.path:match '[^/]+$', query = sweep.name,
    version = require('ridge').version(), device = device_text(row),
    commit = row.git and row.git:sub(1, 12) .. (row.dirty == 1 and ' with changes' or '') or nil,
    date = row.began and day(row.began) or nil, l1d = row.l1d, l2 = row.l2, l3 = row.l3 },
    row.device_id
end

-- -- What is drawn when nobody says -------------------------------------------------------------

-- Parameters with several values, those with most numbers first.
local function varying(rows, params)
  local list = {}
  for _, name in ipairs(params) do
    local seen, n, numbers = {}, 0, true
    for _, row in ipairs(rows) do
      local v = row[name]
      if v ~= nil and not seen[v] then
        seen[v] = true
        n = n + 1
        numbers = numbers and type(v) == 'number'
      end
    end
    if n > 1 then list[#list + 1] = { name = name, n = n, numbers = numbers } end
  end
  return list
end

local function default_axes(opt, list, who)
  local names = {}
  for _, p in ipairs(list) do
    if p.numbers and p.name ~= opt.of then names[#names + 1] = p.name end
  end
  opt.x = opt.x or (names[1] ~= opt.y and names[1] or names[2])
  opt.y = opt.y or (names[1] ~= opt.x and names[1] or names[2])
  if not opt.x or not opt.y or opt.x == opt.y then
    blame.raise(('%s needs two parameters with several numbers; name them with x and y'):format(
      who), 'EARG')
  end
end

-- The parameter with most numbers, then what a line and a panel stand for.
local function default_lines(opt, list)
  local numbers, taken = {}, {}
  for _, p in ipairs(list) do if p.numbers then numbers[#numbers + 1] = p end end
  table.sort(numbers, function(a, b) return a.n > b.n end)
  opt.x = opt.x or (numbers[1] and numbers[1].name)
  if not opt.x then
    blame.raise('a line needs a parameter with several numbers; name it with x', 'EARG')
  end
  taken[opt.x] = true
  if opt.by then taken[opt.by] = true end
  if opt.facet then taken[opt.facet] = true end
  for _, key in ipairs { 'by', 'facet' } do
    for _, p in ipairs(list) do
      if not opt[key] and not taken[p.name] then
        opt[key] = p.name
        taken[p.name] = true
      end
    end
  end
end

-- -- Rows ---------------------------------------------------------------------------------------

local function ceilings_of(st, device)
  return device and st:ceilings(device) or {}
end

-- Add the share of the roof that each row reaches, in percent, and which roof it is.
local function add_roof(rows, phase, ceilings, machine)
  local by_name, threads = roof.by_name(ceilings), 1
  for _, c in ipairs(ceilings) do threads = math.max(threads, c.threads or 1) end
  machine = { l1d = machine.l1d, l2 = machine.l2, l3 = machine.l3, threads = threads }
  for _, row in ipairs(rows) do
    local cost = { flops = row[phase .. '_flops'], bytes = row[phase .. '_bytes'],
      sign_flops = row[phase .. '_sign_flops'], dtype = row.dtype or 'f32' }
    local least, bound = roof.least(cost, by_name, machine)
    if least and row[phase] then
      row[phase .. '_roof'], row[phase .. '_bound'] = least / row[phase] * 100, bound
    end
  end
end

local function need_roof(rows, phase, ceilings)
  for _, row in ipairs(rows) do if row[phase .. '_roof'] then return end end
  blame.raise(#ceilings == 0
    and 'this machine has no stored ceilings; ridge calibrate measures them'
    or ('no point says what %s costs; m:cost does'):format(phase), 'EARG')
end

local GATHER = {}

function GATHER.efficiency(rows, opt, from)
  local ceilings = ceilings_of(from.st, from.device)
  add_roof(rows, opt.z, ceilings, opt)
  need_roof(rows, opt.z, ceilings)
  return rows
end

-- Ceilings are rows of their own, so that the picture carries them.
function GATHER.roofline(rows, opt, from)
  local ceilings = ceilings_of(from.st, from.device)
  add_roof(rows, opt.y, ceilings, opt)
  for _, c in ipairs(ceilings) do
    rows[#rows + 1] = { roof = c.name, value = c.value, value_lo = c.ci_lo, value_hi = c.ci_hi,
      threads = c.threads, state = 'ceiling' }
  end
  return rows
end

-- Pairs that stood side by side in every pass are compared by the ratios of their passes.
function GATHER.ratio(rows, opt, from)
  -- the picture says what is missing; the fast state has no ratios within passes
  if not (opt.a and opt.b) or opt.time == 'quiet' then return rows end
  local left, other_of = require('ridge.plot.ratio').pairs(rows, opt)
  for _, row in ipairs(left) do
    local other = other_of(row)
    if other and from.alike(row, other) then pairing.join(row, other, opt.z) end
  end
  return rows
end

-- Likewise the best of each place with the others there.
function GATHER.winner(rows, opt, from)
  if not opt.of or opt.time == 'quiet' then return rows end
  for _, place in ipairs(require('ridge.plot.winner').places(rows, opt)) do
    for i = 2, #place do
      if from.alike(place[i], place[1]) then pairing.join(place[i], place[1], opt.z) end
    end
  end
  return rows
end

-- One row a comparison; its pair as words.
function GATHER.forest(_, _, from)
  local rows = {}
  local function words(params)
    return require('ridge.sweep.space').label(params)
  end
  for _, found in ipairs(comparison.rows(from.st, from.sweep.name)) do
    local shared, a, b = {}, {}, {}
    for name, value in pairs(found.a) do
      if found.b[name] == value then shared[name] = value else a[name] = value end
    end
    for name, value in pairs(found.b) do if shared[name] == nil then b[name] = value end end
    rows[#rows + 1] = { pair = words(shared), a = words(a), b = words(b), phase = found.phase,
      ratio = found.ratio, ratio_lo = found.ci_lo, ratio_hi = found.ci_hi,
      verdict = found.verdict, margin = found.margin, aa = found.aa, floor = found.floor,
      blocks = found.blocks, at = tonumber(found.at), state = 'ok' }
  end
  if #rows == 0 then
    blame.raise(('nothing of %s was compared; ridge ab %s does'):format(from.sweep.name,
      from.sweep.name), 'EARG')
  end
  return rows
end

-- Samples of points, one row each: of the trials that are named, or of the one worth a look.
function GATHER.samples(rows, opt, from)
  local out, wanted, phase = {}, {}, opt.y
  for id in tostring(opt.trials or ''):gmatch '[^,]+' do
    local number = id:match '^%s*(%d+)%s*$'
    if not number then
      blame.raise(('trials: %s is no number of a trial'):format(blame.show(id)), 'EARG')
    end
    wanted[tonumber(number)] = true
  end
  if not next(wanted) then
    local worst -- the one whose spread is largest
    for _, row in ipairs(rows) do
      local spread = row[phase] and row[phase .. '_p95'] and row[phase .. '_p95'] / row[phase]
      if spread and (not worst or spread > worst.spread) then
        worst = { spread = spread, trial = row.trial }
      end
    end
    if worst then wanted[worst.trial] = true end
  end
  local params = results.params(from.st, from.sweep.id)
  for _, row in ipairs(rows) do
    local s = wanted[row.trial] and results.samples(from.st, row.trial, phase)
    local words = {}
    for _, name in ipairs(params) do words[name] = row[name] end
    for i = 1, s and #s.dur or 0 do
      out[#out + 1] = { trial = row.trial, point = require('ridge.sweep.space').label(words),
        sample = i, ns = s.dur[i], at = s.at and s.at[i] or nil,
        disturbed = s.mark and s.mark[i] ~= 0 or nil,
        grade = row.grade, flags = row.flags, state = 'ok' }
    end
  end
  if #out == 0 then blame.raise(('no samples of %s are stored'):format(phase), 'EARG') end
  return out
end
GATHER.distribution = GATHER.samples

-- A row for each step of each point's curve.
function GATHER.training(rows, opt, from)
  local out, words = {}, {}
  local params = results.params(from.st, from.sweep.id)
  local varied = {}
  for _, p in ipairs(varying(rows, params)) do varied[p.name] = true end
  for _, row in ipairs(rows) do
    local own = {}
    for _, name in ipairs(params) do own[name] = varied[name] and row[name] or nil end
    words[row.trial] = { label = require('ridge.sweep.space').label(own), row = row }
  end
  for _, c in ipairs(results.curves(from.st, from.sweep.id, opt.y)) do
    local of = words[c.trial]
    local one = of and { trial = c.trial, point = of.label, step = c.step, seconds = c.seconds,
      [opt.y] = c.value, state = 'ok' }
    for _, name in ipairs(one and params or {}) do one[name] = of.row[name] end
    out[#out + 1] = one
  end
  if #out == 0 then
    blame.raise(('no curve %s is stored; m:curve does'):format(opt.y), 'EARG')
  end
  return out
end

-- Every generation of the sweep's name, each point with its day and commit.
function GATHER.history(_, opt, from)
  local rows = {}
  opt.other_protocol = from.st.db:value([[/* of another protocol */ SELECT count(*)
    FROM main.sweep s JOIN main.protocol p ON p.id = s.protocol_id
    WHERE s.base = (SELECT base FROM main.sweep WHERE id = ?1) AND p.version <> (SELECT o.version
      FROM main.sweep w JOIN main.protocol o ON o.id = w.protocol_id WHERE w.id = ?1)]],
    from.sweep.id)
  -- rounds of one process and passes say other things: of this sweep's version of the protocol only
  for _, s in ipairs(from.st.db:look([[/* generations */ SELECT s.id, s.name FROM main.sweep s
      JOIN main.protocol p ON p.id = s.protocol_id
      WHERE s.base = (SELECT base FROM main.sweep WHERE id = ?1) AND p.version = (SELECT o.version
        FROM main.sweep w JOIN main.protocol o ON o.id = w.protocol_id WHERE w.id = ?1)
      ORDER BY s.generation]], from.sweep.id)) do
    local origin = origin_of(from.st, s.id)
    for _, row in ipairs(results.rows(from.st, s.id)) do
      row.run, row.commit = s.name, origin.git and origin.git:sub(1, 9) or '?'
      row.env = tostring(origin.cpu)
      if row.began then rows[#rows + 1] = row end
    end
  end
  return rows
end

-- -- Figures --------------------------------------------------------------------------------------

local MAPS = { map = true, efficiency = true, ratio = true, winner = true, uncertainty = true }
local LINES = { slices = true, steps = true, threads = true }

-- A panel for each value of what is neither across nor upwards; a pair of a ratio agrees in all
-- that its two sides do not name.
local function fill_panels(kind, opt, list)
  local sides, match = { [opt.of or ''] = true }, {}
  if kind == 'ratio' then
    local side = require('ridge.plot.ratio').side
    for _, key in ipairs { 'a', 'b' } do
      for name in pairs(side(opt[key], 'plot.ratio')) do sides[name] = true end
    end
  end
  for _, p in ipairs(list) do
    if not sides[p.name] then
      match[#match + 1] = p.name
      local is_dtype = kind == 'map' and p.name == 'dtype'
      if p.name ~= opt.x and p.name ~= opt.y and (not opt.facet or is_dtype and not opt.given_facet)
      then
        opt.facet = p.name
      end
    end
  end
  if kind == 'ratio' then opt.match = table.concat(match, ',') end
end

local function fill(kind, opt, rows, params, st, sweep)
  local list = varying(rows, params)
  if MAPS[kind] then
    opt.z = opt.z or results.first(st, sweep.id)
    default_axes(opt, list, 'a map')
    fill_panels(kind, opt, list)
  elseif LINES[kind] then
    if kind == 'threads' then opt.x = opt.x or 'threads' end
    opt.y = opt.y or results.first(st, sweep.id)
    if kind == 'steps' and rows[1] and not opt.given_y then
      local rate = opt.y .. '_gflops'
      for _, row in ipairs(rows) do if row[rate] then opt.y = rate break end end
    end
    default_lines(opt, list)
  elseif kind == 'effects' then
    opt.y = opt.y or results.first(st, sweep.id)
    local names = {}
    for i, p in ipairs(list) do names[i] = p.name end
    opt.params = opt.params or table.concat(names, ',')
  elseif kind == 'training' then
    opt.y = opt.y or 'loss'
  elseif kind ~= 'landscape' and kind ~= 'batch' then
    opt.y = opt.y or results.first(st, sweep.id)
  end
end

-- Lines of points that agree in all but x: where more parameters vary than a line and a panel stand
-- for, a column of its own names them. History has a line for each point.
local function whole_lines(kind, opt, rows, params)
  if kind == 'history' then
    local names = {}
    for i, p in ipairs(varying(rows, params)) do names[i] = p.name end
    opt.by = opt.by or #names > 0 and table.concat(names, ',') or nil
  end
  if not LINES[kind] then return end
  local facet = kind == 'slices' and opt.facet
  local others, n = {}, 0
  for _, p in ipairs(varying(rows, params)) do
    if p.name ~= opt.x and p.name ~= facet then
      others[p.name], n = true, n + (p.name ~= opt.by and 1 or 0)
    end
  end
  if n == 0 then return end
  for _, row in ipairs(rows) do
    local words = {}
    for name in pairs(others) do words[name] = row[name] end
    row.configuration = require('ridge.sweep.space').label(words)
  end
  opt.by = 'configuration'
end

-- What a kind has no use for is left out, but for what would be another number.
local function only_known(kind, opt)
  local spec, out = kinds.options(kind), {}
  if opt.time == 'quiet' and not spec.time then
    blame.raise(('%s draws no medians, so there is none of the fast state (quiet) in their place')
      :format(kind), 'EARG')
  end
  for name, value in pairs(opt) do if spec[name] then out[name] = value end end
  return out
end

-- Is a column that says where and when named by any option?
local function asks_origin(given)
  for _, text in pairs(given or {}) do
    for word in (type(text) == 'string' and text or ''):gmatch '[%a_][%w_]*' do
      for _, name in ipairs(schema.ORIGIN) do
        if word == name then return true end
      end
    end
  end
  return false
end

-- The rows of sweeps, with where they were measured if that is asked for, or they are of several;
-- and whether two of them went through the same passes, on one machine.
local function rows_of(st, sweeps, given, drawn)
  local rows, params, seen, place = {}, {}, {}, {}
  local wanted = #sweeps > 1 or asks_origin(given)
  for _, sweep in ipairs(sweeps) do
    local origins = wanted and results.origins(st, sweep.id) or {}
    for _, name in ipairs(results.params(st, sweep.id)) do
      if not seen[name] then seen[name], params[#params + 1] = true, name end
    end
    for _, row in ipairs(drawn or results.rows(st, sweep.id)) do
      local origin = origins[row.trial]
      if origin then place[row] = ('%s %s'):format(origin.sweep, tostring(origin.machine)) end
      for _, name in ipairs(origin and schema.ORIGIN or {}) do
        if row[name] == nil then row[name] = origin[name] end
      end
      rows[#rows + 1] = row
    end
  end
  return rows, params, function(a, b) return place[a] == place[b] end
end

local function is_asked(sweeps, given)
  if given and given.mixed then return true end
  for _, text in pairs(given or {}) do
    if unlike.named(text) or #sweeps > 1 and text == 'sweep' then return true end
  end
  return false
end

-- The machines that a picture mixes, by their names; nil where they are alike.
local function mixed_of(kind, st, sweeps, given)
  if unlike.EACH_ALONE[kind] then return nil end
  if is_asked(sweeps, given) then
    local found = unlike.kinds(st, sweeps)
    return #found > 0 and unlike.text(found) or nil
  end
  unlike.refuse(st, sweeps, 'plot.' .. kind, 'facet, by or a side of a ratio over machine keeps '
    .. 'them apart, mixed draws them together')
end

--- A picture of a stored sweep, or of the points of several together.
---@param kind string
---@param st table store
---@param sweep table id, name
---@param given table|nil options of the kind; what is left out is found in the sweep. mixed = true:
---  also points of unlike machines
---@param others table[]|nil sweeps whose points are drawn, too
---@param drawn table[]|nil the rows that are drawn, where not all of them are
---@return table figure
function M.figure(kind, st, sweep, given, others, drawn)
  kinds.find(kind)
  local opt, device = about(st, sweep)
  for name, value in pairs(given or {}) do
    opt[name] = type(value) == 'string' and #name == 1 and value:gsub('%.', '_') or value
  end
  opt.given_y, opt.given_facet = given and given.y, given and given.facet
  local sweeps = { sweep, unpack(others or {}) }
  local mixed = mixed_of(kind, st, sweeps, given)
  local rows, params, alike = rows_of(st, sweeps, given, drawn)
  if #sweeps > 1 then
    local names = {}
    for i, each in ipairs(sweeps) do names[i] = each.name end
    opt.sweep = table.concat(names, ', ')
    opt.device, opt.commit, opt.date = nil, nil, nil -- of the first one only
  end
  opt.device = mixed or opt.device -- not that of the newest point alone
  fill(kind, opt, rows, params, st, sweep)
  whole_lines(kind, opt, rows, params)
  local z, directions = MAPS[kind] and opt.z or opt.y, results.directions(st, sweep.id)
  local function better(name)
    local direction = name and directions[name]
    return direction == 1 and 'higher' or direction == -1 and 'lower' or nil
  end
  opt.better = opt.better or better(z)
  opt.better_x, opt.better_y = opt.better_x or better(opt.x), opt.better_y or better(opt.y)
  local gather = GATHER[kind]
  if gather then rows = gather(rows, opt, { st = st, sweep = sweep, device = device,
    alike = alike }) end
  return plot.draw(kind, rows, only_known(kind, opt))
end


return M
