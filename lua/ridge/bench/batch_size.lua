-- SPDX-License-Identifier: MIT
--- The best batch size of a model: the largest that fits, or the one with the best throughput. Runs
--- the searches of fit.lua and throughput.lua on the real thing, keeps what they measured, and says
--- why they stopped.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local clock = require 'ridge.store.clock'
local configs = require 'ridge.bench.config'
local fit = require 'ridge.bench.fit'
local guard = require 'ridge.guard'
local layer = require 'ridge.bench.layer'
local log = require 'ridge.sweep.log'
local memory = require 'ridge.memory'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local part = require 'ridge.sweep.part'
local store = require 'ridge.store'
local subject = require 'ridge.bench.subject'
local suite = require 'ridge.bench.suite'
local throughput = require 'ridge.bench.throughput'

local M = {}

M.KINDS = { 'inference', 'training', 'throughput' }
M.OPTIMIZERS = { 'sgd', 'adam', 'adamw', 'lion' }

local OPTIMIZER = { sgd = { 'SGD', { momentum = 0.9 } }, adam = { 'Adam', {} },
  adamw = { 'AdamW', { weight_decay = 0 } }, lion = { 'Lion', {} } }

local SPEC = {
  kind = { 'string', default = 'inference', choices = M.KINDS },
  optimizer = { 'string', default = 'adam', choices = M.OPTIMIZERS,
                doc = 'whose state a training step holds; sgd has momentum' },
  share = { 'number', default = 0.9, min = 0.01, max = 1, doc = 'of the memory that may be used' },
  memory = { 'number', min = 1, doc = "bytes there are; the device's limit, else what is free" },
  min = { 'integer', default = 1, min = 1 },
  max = { 'integer', min = 1, doc = '65536 for what fits, 4096 for throughput' },
  step = { 'integer', min = 1, doc = 'of the batches of throughput; doubled when left out' },
  least = { 'number', default = 0.01, min = 0, max = 1, doc = 'gain that is worth having' },
  budget = { 'number|string', doc = "of the search: seconds, '90s', '5m'" },
  input_shape = { 'table|integer', doc = 'shape of one sample; what the first layer takes' },
  dtype = { 'string' },
  device = { 'string', default = 'cpu', doc = "whose memory it is: 'cpu', 'cuda:0' ..." },
  seed = { 'integer', default = 1, min = 0 },
  protocol = { 'string|table', default = 'demo', doc = 'see measure.protocol' },
  cache = { 'string', default = 'warm', choices = { 'warm', 'cold' } },
  db = { 'string', doc = 'database file; else RIDGE_DB, else results/ridge.db' },
  name = { 'string', doc = 'of the sweep that keeps what was measured' },
  lab = { 'table', doc = 'ridge.sweep.lab, or what stands in for it' },
  say = { 'function', doc = 'called with a line for each batch tried' },
}

-- Memory -------------------------------------------------------------------------------------

-- Bytes there are for the taking: what the system has left, or what a device has, with what is kept
-- of it in ridge's own pool.
local function available(opt)
  local stats = memory.stats(opt.device)
  if opt.device == 'cpu' then return memory.process().available + stats.live end
  local device = require 'ridge.measure.device'
  return (device.facts(device.number(opt.device)).free or 0) + stats.reserved
end

-- Bytes that may be live, all in all, and what they are a share of.
local function budget_of(opt)
  local stats = memory.stats(opt.device)
  local total = opt.memory or stats.limit > 0 and stats.limit or available(opt)
  return math.floor(total * opt.share), total
end

-- Run a function that may run out of memory: nothing above the budget is ever touched, because the
-- allocator refuses it. What it made is released in any case.
local function within(budget, device, fn)
  local before, depth = memory.stats(device).limit, memory.depth()
  memory.set_limit(before > 0 and math.min(before, budget) or budget, device)
  local ok, result = pcall(memory.scope, fn)
  if not ok then memory.unwind(depth) end
  memory.set_limit(before, device)
  if ok then return result end
  local oom = blame.is_error(result) and result.code == 'ENOMEM'
    or type(result) == 'string' and result:find('not enough memory', 1, true)
  if not oom then error(result, 0) end
  ref.collect()
  return { oom = true, message = blame.is_error(result)
    and result.message:match '[^\n]*':gsub('^memory: ', '')
    or tostring(result) }
end

-- One forward pass at a batch size, and the bytes live at its highest point.
local function try_forward(module, shape, opt, budget)
  local no_grad = require('ridge').no_grad
  return function(batch)
    ref.collect()
    memory.reset_peak(opt.device)
    local found = within(budget, opt.device, function()
      local x = subject.input(shape, batch, opt.dtype, opt.seed, opt.device)
      no_grad(function() return module(x) end)
      return {}
    end)
    if not found.oom then found.peak = memory.stats(opt.device).peak end
    return found
  end
end

-- Parameters, and whether they wanted gradients before.
local function trained_of(module)
  local list = {}
  for _, p in ipairs(module:parameters()) do
    if p.trainable then list[#list + 1] = { tensor = p.tensor, wanted = p.tensor.requires_grad } end
  end
  return list
end

-- One training step at a batch size: forward, a loss, back, and the optimizer, whose state is made
-- again so that it counts. Its rate is 0: the weights stay as they are.
local function try_training(module, shape, opt, budget)
  local name, more = unpack(OPTIMIZER[opt.optimizer])
  local kept = trained_of(module)
  local function step(batch)
    local given = { lr = 0 }
    for key, value in pairs(more) do given[key] = value end
    local optimizer = require('ridge.optim')[name](module, given)
    module(subject.input(shape, batch, opt.dtype, opt.seed, opt.device)):square():mean():backward()
    optimizer:step()
  end
  return function(batch)
    ref.collect()
    memory.reset_peak(opt.device)
    local before = module.training
    module:train()
    local found = within(budget, opt.device, function()
      step(batch)
      return {}
    end)
    if not found.oom then found.peak = memory.stats(opt.device).peak end
    module:train(before)
    for _, p in ipairs(kept) do p.tensor:zero_grad():requires_grad_(p.wanted) end
    return found
  end
end

-- Throughput ---------------------------------------------------------------------------------

-- Measures a batch in one block with the best so far.
local function measure_pair(module, shape, opt, protocol, budget, lease)
  local function make(batch)
    return subject.new(module, { shape = shape, batch = batch, dtype = opt.dtype, seed = opt.seed,
      device = opt.device })
  end
  return function(best, batch)
    local again
    local found = within(budget, opt.device, function()
      local points, subjects = {}, { make(batch), best and make(best) or nil }
      for i, s in ipairs(subjects) do
        points[i] = { plan = s.plan, cost = s.cost,
                      label = ('b%d'):format(i == 1 and batch or best) }
      end
      if lease then lease:exclusive() end -- nobody else times, here or in another process
      local results = require('ridge.measure').block(points, protocol)
      if lease then lease:drop() end
      for i, s in ipairs(subjects) do
        s.plan:release()
        if results[i].error then error(results[i].error, 0) end
      end
      again = results[2]
      return { result = results[1], flops = subjects[1].cost.flops, peak = subjects[1].peak,
               average = subjects[1].average }
    end)
    return found, again
  end
end

-- Keeping ------------------------------------------------------------------------------------

local function metric(list, name, value, unit, better)
  list[#list + 1] = { name = name, value = value, unit = unit, better = better }
end

local function point_of(found)
  local outcome = { state = found.oom and 'oom' or 'ok', message = found.message, metrics = {},
                    timings = {}, peak = found.peak }
  if not found.oom then metric(outcome.metrics, 'peak_bytes', found.peak, 'byte', -1) end
  if found.fits ~= nil then metric(outcome.metrics, 'fits', found.fits and 1 or 0) end
  if found.result then
    outcome.timings[1] = { phase = 'fwd', result = found.result }
    outcome.grade, outcome.flags = found.result.grade, table.concat(found.result.flags, ' ')
    metric(outcome.metrics, 'avg_bytes', found.average, 'byte', -1)
  end
  if found.rate then
    metric(outcome.metrics, 'samples_per_s', found.rate.value, '1/s', 1)
    metric(outcome.metrics, 'samples_per_s_lo', found.rate.lo, '1/s', 1)
    if found.rate.hi < math.huge then
      metric(outcome.metrics, 'samples_per_s_hi', found.rate.hi, '1/s', 1)
    end
  end
  return { params = { batch = found.batch }, outcome = outcome }
end

local function keep(found, opt, protocol)
  local points = {}
  for i, try in ipairs(found.tries) do points[i] = point_of(try) end
  local words = found.model:gsub('[^%w]+', '-'):gsub('^%-+', ''):gsub('%-+$', ''):sub(1, 30)
  return log.keep({ name = opt.name or ('batch-%s-%s'):format(opt.kind, words),
    recipe_name = 'batch_size', recipe = ('batch size, %s: %s'):format(opt.kind, found.model),
    protocol = protocol or {}, seed = opt.seed,
    args = { model = found.model, kind = opt.kind,
      optimizer = opt.kind == 'training' and opt.optimizer or canonical.null,
      dtype = opt.dtype or 'f32', share = opt.share,
      memory = found.total, budget = found.budget, best = found.best or canonical.null,
      highest = found.highest, undecided = found.unsure, stop = found.stop,
      reason = found.reason, threads = require('ridge.backend').threads(),
      device = opt.device ~= 'cpu' and opt.device or nil } },
    points, { db = opt.db, lab = opt.lab })
end

-- Reading ------------------------------------------------------------------------------------

local Found = {}
Found.__index = Found

--- Rows as pictures take them.
---@return table rows batch, peak_bytes, samples_per_s with _lo and _hi, fits, state, grade
function Found:rows()
  local rows = {}
  for i, try in ipairs(self.tries) do
    rows[i] = { batch = try.batch, peak_bytes = try.peak, state = try.oom and 'oom' or 'ok',
      fits = try.fits, reason = try.message, verdict = try.verdict,
      flags = try.result and table.concat(try.result.flags, ' '),
      grade = try.result and try.result.grade, n = try.result and try.result.n }
    if try.rate then
      rows[i].samples_per_s, rows[i].samples_per_s_lo = try.rate.value, try.rate.lo
      rows[i].samples_per_s_hi = try.rate.hi < math.huge and try.rate.hi or nil
    end
  end
  table.sort(rows, function(a, b) return a.batch < b.batch end)
  return rows
end

--- The curve: memory and, for throughput, samples a second over the batch.
---@param opt table|nil device, commit, date, theme
---@return table figure with save(path)
function Found:plot(opt)
  local given = options.over({ best = self.best, undecided = self.unsure, budget = self.budget,
    reason = self.reason, model = self.model, sweep = self.kept and self.kept.name,
    database = self.kept and self.kept.path }, opt, 'plot.batch')
  return require('ridge.plot').batch(self:rows(), given)
end

--- What was found, as lines.
---@return string text
function Found:text()
  local columns, rows = require 'ridge.show.columns', {}
  for i, row in ipairs(self:rows()) do
    local rate = row.samples_per_s
    rows[i] = { row.batch, row.peak_bytes and fit.mb(row.peak_bytes) or '',
      rate and ('%.4g'):format(rate) or '',
      rate and ('%.4g .. %s'):format(row.samples_per_s_lo, row.samples_per_s_hi
        and ('%.4g'):format(row.samples_per_s_hi) or '?') or '',
      row.verdict or row.fits and 'fits' or row.state == 'oom' and 'out of memory' or 'too large',
      row.grade or '' }
  end
  local text = columns.text({ 'batch', 'peak', 'samples/s', '95 % interval', '', 'grade' }, rows,
    { width = 200, right = { [2] = true, [3] = true, [4] = true } })
  local note = ''
  if self.highest and self.highest ~= self.best and self.unsure then
    note = (' shown; the highest median has %d, undecided'):format(self.highest)
  end
  if self.simulated and self.kind == 'throughput' then
    note = note .. ' (the device is simulated: these times say nothing of any GPU)'
  end
  local title = self.kind == 'throughput' and 'best throughput' or 'largest that fits'
  return ('%s\n%s: %s%s\nstopped because %s'):format(text, title, self.best or 'none', note,
    self.reason)
end

Found.__tostring = guard.text(Found.text)

-- The search ---------------------------------------------------------------------------------

local function speaking(opt, fn)
  if not opt.say then return fn end
  return function(...)
    local found, again = fn(...)
    local batch = select('#', ...) == 1 and (...) or select(2, ...)
    opt.say(('batch %d: %s'):format(batch, found.oom and 'out of memory' or fit.mb(found.peak)
      .. (found.result and (', %.4g samples/s, grade %s'):format(
        batch * 1e9 / found.result.med, found.result.grade) or '')))
    return found, again
  end
end

local function search_throughput(module, shape, opt, protocol, budget)
  local lease = opt.lab.lease()
  local ok, found = pcall(throughput.search,
    speaking(opt, measure_pair(module, shape, opt, protocol, budget, lease)),
    { min = opt.min, max = opt.max, step = opt.step, budget = budget, least = opt.least,
      seconds = part.seconds(opt.budget), now = clock.seconds })
  if lease then lease:close() end
  if not ok then error(found, 0) end
  return found
end

--- Find the best batch size of a model by measuring.
--
-- 'inference': the largest batch whose forward pass stays within `share` of the memory.
-- 'training': the same for a whole step: forward, back, gradients, and the optimizer's state.
-- 'throughput': the batch with the most samples a second, within the same share.
-- >> print(ridge.bench.batch_size('linear{64,32}', { memory = 2^20, db = '/tmp/x.db' }))
---@param model any a module, a function of the input, or a text like 'linear{64,32}'
---@param given table|nil kind, optimizer, share, memory, min, max, step, least, budget,
---  input_shape, dtype, device, seed, protocol, cache, db, name, lab, say
---@return table found best (nil: none fits), stop, reason, tries, budget, kept (the sweep);
---  text(), rows(), plot()
function M.find(model, given)
  local opt = options.check(SPEC, given, 'bench.batch_size')
  if opt.kind == 'training' and type(model) == 'function' then
    blame.raise("bench.batch_size: kind = 'training' needs a module, whose parameters are trained; "
      .. 'this is a function', 'EARG', 'bench.batch_size')
  end
  opt.lab = opt.lab or require('ridge.sweep.device').lab(opt.device)
  opt.max = opt.max or (opt.kind == 'throughput' and 4096 or 65536)
  if opt.max < opt.min then
    blame.raise(('bench.batch_size: max %d is less than min %d'):format(opt.max, opt.min), 'EARG',
      'bench.batch_size')
  end
  part.seconds(opt.budget) -- raises where it is none, whatever is looked for
  local text = type(model) == 'string' and layer.parse(model).text or nil
  local module = suite.module(model, opt.seed, opt.device)
  if text and opt.dtype and opt.dtype ~= 'f32' then module:to(opt.dtype) end
  local holder = type(module) == 'function' and {} or module
  local shape = subject.shape(holder, opt.input_shape)
  opt.dtype = opt.dtype or subject.dtype(holder)
  local budget, total = budget_of(opt)
  store.open(opt.db or store.default_path(), 'write'):close() -- noticed before the work
  local protocol, found
  if opt.kind == 'throughput' then
    protocol = configs.protocol { protocol = opt.protocol, cache = opt.cache, seed = opt.seed }
    found = search_throughput(module, shape, opt, protocol, budget)
  else
    local try = opt.kind == 'training' and try_training or try_forward
    found = fit.search(speaking(opt, try(module, shape, opt, budget)),
      { min = opt.min, max = opt.max, budget = budget })
  end
  found.kind, found.budget, found.total = opt.kind, budget, total
  found.simulated = opt.lab.simulated
  found.model = text or tostring(model):match '[^\n]*'
  found.kept = keep(found, opt, protocol)
  return setmetatable(found, Found)
end

return M
