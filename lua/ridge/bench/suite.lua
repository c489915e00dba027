-- SPDX-License-Identifier: MIT
--- The benchmark suite of document 003: models over batch sizes, one or several compared.
--
-- What is compared is measured in one block, its rounds shuffled: what the machine does meanwhile
-- falls on all of them alike.  Models given as text are made again in five fresh processes. Nothing
-- here times anything itself.

local blame = require 'ridge.blame'
local configs = require 'ridge.bench.config'
local layer = require 'ridge.bench.layer'
local memory = require 'ridge.memory'
local metrics = require 'ridge.bench.metrics'
local report = require 'ridge.bench.report'
local subject = require 'ridge.bench.subject'

local M = {}

-- More than these in one block, and a round of a point comes back too late (ridge.measure.block).
local MOST = 8

--- A model from what a user gives: a module, a function of the input, or a text.
---@param given any
---@param seed integer
---@param device string|nil where a text's module is made; a module stays where it is
---@return table|function module
function M.module(given, seed, device)
  if type(given) == 'string' then
    local module = layer.build(layer.parse(given), seed)
    return device and device ~= 'cpu' and module:to(device) or module
  end
  if type(given) == 'function' or type(given) == 'table' and given.forward then return given end
  blame.raise(('bench: a model is a module, a function of the input, or a text like '
    .. 'linear{1024,4096}; got %s'):format(type(given)), 'EARG', 'bench')
end

-- Models as { name =, module = }, the baseline first.
local function named(given, opt)
  local list = {}
  if type(given) ~= 'table' or given.forward then given = { given } end
  for _, value in ipairs(given) do
    local name = type(value) == 'string' and value or tostring(value):match '[^\n]*'
    list[#list + 1] = { name = name, module = M.module(value, opt.seed, opt.device),
                        text = type(value) == 'string' and value or nil }
  end
  local keys = {}
  for key in pairs(given) do
    if type(key) == 'string' then keys[#keys + 1] = key end
  end
  table.sort(keys)
  for _, key in ipairs(keys) do
    list[#list + 1] = { name = key, module = M.module(given[key], opt.seed, opt.device),
                        text = type(given[key]) == 'string' and given[key] or nil }
  end
  if #list == 0 or #list > MOST then
    blame.raise(('bench: 1 to %d models at once, not %d'):format(MOST, #list), 'EARG', 'bench')
  end
  local seen = {}
  for i, model in ipairs(list) do
    if seen[model.name] then model.name = ('%s (%d)'):format(model.name, i) end
    seen[model.name] = true
  end
  return list
end

-- What a device said of itself after the last round; nil on the CPU.
local function gpu_of(result, opt)
  if opt.device == 'cpu' then return nil end
  local after = result.state and result.state.after or {}
  return { clock_mhz = result.clock_mhz, celsius = after.celsius, watts = after.watts }
end

local function entry_of(model, batch, s, result, opt)
  return { model = model.name, batch = batch, samples = result.samples, inner = result.inner,
    warm_calls = result.warm_calls, ci_lo = result.ci_lo, ci_hi = result.ci_hi,
    med = result.med, sd_minutes = result.sd_minutes,
    first_ns = result.first_ns, peak = s.peak, average = s.average, flops = s.cost.flops,
    grade = result.grade, flags = table.concat(result.flags, ' '), stop = result.stop,
    rounds = result.rounds, clock_hz = result.clock_hz, gpu = gpu_of(result, opt),
    config = { cache = opt.cache, dtype = s.cost.dtype,
               device = opt.device ~= 'cpu' and opt.device or nil,
               threads = require('ridge.backend').threads(), seed = opt.seed } }
end

-- The texts of the models, where fresh processes can make all of them and the machine is this one.
local function texts_of(models, opt)
  if opt.services or opt.num_iterations or opt.device ~= 'cpu' then return nil end
  local texts = {}
  for i, model in ipairs(models) do
    if not model.text then return nil end
    texts[i] = model.text
  end
  return texts
end

-- All models at one batch size: in passes where they can be made again, else in one block.
local function at_batch(models, batch, opt, calibration, entries)
  local subjects, points = {}, {}
  for i, model in ipairs(models) do
    subjects[i] = subject.new(model.module, { shape = opt.input_shape, batch = batch,
      dtype = opt.dtype, seed = opt.seed, device = opt.device })
    points[i] = { plan = subjects[i].plan, label = ('%s b%d'):format(model.name, batch),
                  cost = subjects[i].cost }
  end
  local texts = texts_of(models, opt)
  local results = texts and require('ridge.bench.fresh').results(texts, batch, opt, calibration)
    or require('ridge.measure').block(points, opt.protocol,
      { calibration = calibration, services = opt.services })
  for i, result in ipairs(results) do
    if result.error then error(result.error, 0) end
    entries[#entries + 1] = entry_of(models[i], batch, subjects[i], result, opt)
    subjects[i].plan:release()
  end
end

-- The stored noise and ceilings of this machine, for grades; nil where nobody calibrated.
local function calibration_of(opt)
  if opt.services then return nil end
  local stored = require('ridge.sweep.calibrated').stored(nil, opt.device)
  return stored and require('ridge.measure').calibration(stored,
    require('ridge.sweep.device').lab(opt.device).threads()) or nil
end

--- Benchmark one model or compare several over batch sizes.
-- >> print(ridge.bench.model('linear{64,32}', { batch_sizes = { 1, 8 }, protocol = 'quick' }))
---@param models any a module, a function of the input, a text like 'linear{64,32}'; or a table of
---  them, by name or in order, of which the first is what the others are compared with
---@param config table|nil see bench.config
---@return table report results (batch to metrics; of the first model), models (name to the same),
---  comparison, entries; json(), save(folder), tostring
function M.run(models, config)
  local opt = configs.config(config)
  local list, entries = named(models, opt), {}
  local calibration = calibration_of(opt)
  for _, batch in ipairs(opt.batch_sizes) do
    local depth = memory.depth()
    local ok, err = pcall(memory.scope, at_batch, list, batch, opt, calibration, entries)
    if not ok then
      memory.unwind(depth)
      error(err, 0)
    end
  end
  return report.new(entries, require('ridge.sweep.device').lab(opt.device).facts())
end

--- Memory of models by batch size (F6), without any timing: MB, MB a sample, and what the others
--- save against the first.
-- >> ridge.bench.memory({ 'linear{64,32}', 'sketched{64,32,1,4}' })[1].peak_mb
---@param models any as for bench.model
---@param config table|nil batch_sizes (32, 64, 128, 256 when left out), input_shape, dtype, seed,
---  device
---@return table rows each model, batch, peak_mb, avg_mb, mb_per_sample, savings_percent
function M.memory(models, config)
  local given = { batch_sizes = { 32, 64, 128, 256 } }
  for name, value in pairs(config or {}) do given[name] = value end
  local opt, rows = configs.config(given), {}
  local list = named(models, opt)
  for _, batch in ipairs(opt.batch_sizes) do
    local base
    for _, model in ipairs(list) do
      local peak, average
      memory.scope(function()
        local s = subject.new(model.module, { shape = opt.input_shape, batch = batch,
          dtype = opt.dtype, seed = opt.seed, device = opt.device })
        peak, average = s.peak, s.average
        s.plan:release()
      end)
      base = base or peak
      rows[#rows + 1] = { model = model.name, batch = batch, peak_mb = peak / 2 ^ 20,
        avg_mb = average / 2 ^ 20, mb_per_sample = peak / 2 ^ 20 / batch,
        savings_percent = metrics.savings(base, peak) }
    end
  end
  return rows
end

return M
