-- SPDX-License-Identifier: MIT
--- A benchmark of models written as text is a sweep over batch sizes and the models' parameters:
-- kept in the database, resumed, and reported from the samples that lie there.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local configs = require 'ridge.bench.config'
local layer = require 'ridge.bench.layer'
local options = require 'ridge.options'
local report = require 'ridge.bench.report'
local sha256 = require 'ridge.store.sha256'
local subject = require 'ridge.bench.subject'
local sweep = require 'ridge.sweep'
local unlike = require 'ridge.sweep.unlike'

local M = {}

local SPEC = {
  space = { 'table', doc = 'values of batch and of the parameters of the models' },
  name = { 'string', doc = 'of the sweep; made from its content when left out' },
  dtype = { 'string', default = 'f32' },
  device = { 'string', default = 'cpu', doc = "where models run: 'cpu', 'cuda:0' ..." },
  seed = { 'integer', default = 1, min = 0 },
  protocol = { 'string|table', doc = 'see measure.protocol' },
  cache = { 'string', default = 'warm', choices = { 'warm', 'cold' } },
  num_iterations = { 'integer', min = 2, max = 1e6, doc = 'exactly so many timed calls' },
  warmup_iterations = { 'integer', min = 0, max = 1e6, doc = 'exactly so many calls before' },
}

local function space_of(texts, nodes, given)
  local space, needed = {}, { batch = true }
  for name, values in pairs(given or {}) do
    space[name] = type(values) == 'table' and values or { values }
  end
  if space.batch == nil then space.batch = { unpack(configs.BATCH_SIZES) } end
  configs.batches(space.batch)
  for _, node in ipairs(nodes) do
    for _, name in ipairs(layer.parameters(node)) do
      needed[name] = true
      if space[name] == nil then layer.with(node, space) end -- says which one it misses
    end
  end
  for name in pairs(space) do
    if not needed[name] then
      local known = {}
      for each in pairs(needed) do known[#known + 1] = each end
      table.sort(known)
      local near = blame.near(name, known)
      blame.raise(('bench: no model has a parameter %s%s; they have %s'):format(name,
        near and (" (did you mean '%s'?)"):format(near) or '', table.concat(known, ', ')), 'EARG',
        'bench')
    end
  end
  space.model = texts
  return space
end

-- A name that is the same for the same content, so that the same command goes on.
local function name_of(texts, space, args, protocol)
  local words = texts[1]:gsub('[^%w]+', '-'):gsub('%-+$', ''):sub(1, 30)
  local content = canonical.encode { space = space, args = args, protocol = protocol }
  return ('bench-%s-%s'):format(words, sha256.hex(canonical.address(content)):sub(1, 8))
end

--- Declare the sweep of a benchmark.
-- >> local sw = ridge.bench.sweep({ 'linear{w,w}' }, { space = { w = { 64, 128 } } })
---@param texts string|table models
---@param given table|nil space, name, dtype, device, seed, protocol, cache, num_iterations,
---  warmup_iterations
---@return table sweep
function M.sweep(texts, given)
  local opt = options.check(SPEC, given, 'bench.sweep')
  opt.device = configs.device(opt.device)
  texts = type(texts) == 'string' and { texts } or texts
  local nodes = {}
  for i, text in ipairs(texts) do nodes[i] = layer.parse(text) end
  if #nodes == 0 then blame.raise('bench: there is no model', 'EARG', 'bench') end
  local space = space_of(texts, nodes, opt.space)
  local args = { dtype = opt.dtype, seed = opt.seed, threads = require('ridge.backend').threads() }
  local protocol = configs.protocol(opt)
  if opt.device ~= 'cpu' then args.device = opt.device end
  return sweep(opt.name or name_of(texts, space, args, protocol)) {
    space = space, args = args, protocol = protocol, seed = opt.seed, device = opt.device,
    any_name = true, -- the names are of the content, and the models are parameters
    -- parameters that a model does not have would only measure it again
    where = function(p)
      local used = { batch = true, model = true }
      for _, name in ipairs(layer.parameters(layer.parse(p.model))) do used[name] = true end
      for name, value in pairs(p) do
        if not used[name] and value ~= space[name][1] then return false end
      end
      return true
    end,
    setup = function(p)
      local module, n_in = layer.build(layer.with(layer.parse(p.model), p), opt.seed)
      if opt.dtype ~= 'f32' then module:to(opt.dtype) end
      if opt.device ~= 'cpu' then module:to(opt.device) end
      return subject.new(module, { shape = { n_in }, batch = p.batch, dtype = opt.dtype,
        seed = opt.seed, device = opt.device })
    end,
    measure = function(_, c, m)
      m:time('fwd', c.plan)
      m:cost('fwd', c.cost)
      m:metric('peak_bytes', c.peak, { unit = 'byte', better = 'lower' })
      m:metric('avg_bytes', c.average, { unit = 'byte', better = 'lower' })
    end,
  }
end

local function label_of(row, space)
  local parts = {}
  for name in pairs(space) do
    if name ~= 'model' and name ~= 'batch' then
      for _, needed in ipairs(layer.parameters(layer.parse(row.model))) do
        if needed == name then parts[#parts + 1] = ('%s=%s'):format(name, tostring(row[name])) end
      end
    end
  end
  table.sort(parts)
  return #parts > 0 and ('%s %s'):format(row.model, table.concat(parts, ' ')) or row.model
end

-- By the order in which models were given, then by the parameters, then by the batch.
local function before(a, b)
  if a.rank ~= b.rank then return a.rank < b.rank end
  local names = {}
  for name in pairs(a.params) do
    if name ~= 'batch' and name ~= 'model' then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local x, y = a.params[name], b.params[name]
    if x ~= y then
      if type(x) == 'number' and type(y) == 'number' then return x < y end
      return tostring(x) < tostring(y)
    end
  end
  return a.batch < b.batch
end

--- The report of a benchmark that has run, from the rows and samples in its database.
---@param sw table from M.sweep, after sw:run
---@return table report see ridge.bench.report
---@return table missing rows without a time, each with state and reason
function M.report(sw)
  local entries, missing = {}, {}
  local space, args = sw.spec.space, sw.spec.args
  local rank = {}
  for i, text in ipairs(space.model) do rank[text] = i end
  local rows = sw:results()
  unlike.check(rows, 'bench', 'a sweep measured anew (--new) is of one')
  for _, row in ipairs(rows) do
    local kept = row.state == 'ok' and sw:samples(row, 'fwd')
    if kept then
      local params = {}
      for name in pairs(space) do params[name] = row[name] end
      entries[#entries + 1] = { model = label_of(row, space), batch = row.batch, params = params,
        samples = kept.dur, inner = kept.inner, ci_lo = row.fwd_lo, ci_hi = row.fwd_hi,
        med = row.fwd, sd_minutes = row.fwd_between_minutes,
        first_ns = row.fwd_first, peak = row.peak_bytes, average = row.avg_bytes,
        flops = row.fwd_flops, grade = row.grade, flags = row.flags, rank = rank[row.model],
        warm_calls = kept.warm_calls,
        gpu = args.device and { clock_mhz = row.fwd_device_mhz, celsius = row.fwd_celsius,
                                watts = row.fwd_watts },
        config = { cache = sw.spec.protocol.cache, dtype = args.dtype, threads = args.threads,
                   device = args.device, seed = args.seed,
                   sweep = sw.stored_as or sw.name, trial = row.trial } }
    else
      missing[#missing + 1] = row
    end
  end
  table.sort(entries, before)
  local facts = require('ridge.sweep.device').lab(sw.spec.device).facts()
  return report.new(entries, facts), missing
end

return M
