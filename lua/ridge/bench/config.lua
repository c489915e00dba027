-- SPDX-License-Identifier: MIT
--- What a benchmark is asked to do (F128, F129, F134): batch sizes, and either a protocol that
--- stops when it is precise, or fixed numbers of iterations for those who insist.

local blame = require 'ridge.blame'
local options = require 'ridge.options'
local protocols = require 'ridge.measure.protocol'

local M = {}

-- 003's own numbers, for `fixed = true`.
M.NUM_ITERATIONS, M.WARMUP_ITERATIONS = 1000, 100
M.BATCH_SIZES = { 1, 8, 32, 64 }

local SPEC = {
  batch_sizes = { 'table', doc = 'batch sizes; 1, 8, 32, 64 when left out' },
  input_shape = { 'table|integer', doc = 'shape of one sample; what the first layer takes' },
  dtype = { 'string', doc = 'of the input; that of the weights when left out' },
  device = { 'string', default = 'cpu', doc = "where models run: 'cpu', 'cuda:0' ..." },
  seed = { 'integer', default = 1, min = 0, doc = 'of the input and the order of the rounds' },
  protocol = { 'string|table', doc = 'see measure.protocol' },
  cache = { 'string', default = 'warm', choices = { 'warm', 'cold' } },
  fixed = { 'boolean', default = false,
            doc = '1000 iterations after 100 of warm-up, where they are not given' },
  num_iterations = { 'integer', min = 2, max = 1e6, doc = 'exactly so many timed calls' },
  warmup_iterations = { 'integer', min = 0, max = 1e6, doc = 'exactly so many calls before' },
  services = { 'table', doc = 'a made-up machine, for tests' },
}

-- Rounds of a fixed number of samples: five or more, so that there is an interval.
local function rounds_of(n)
  if n < 5 then return n end
  for rounds = 5, math.min(n, 1000) do
    if n % rounds == 0 and n / rounds <= 1000 then return rounds end
  end
  blame.raise(('bench: %d iterations cannot be cut into equal rounds; take %d'):format(n,
    math.ceil(n / 1000) * 1000), 'EARG', 'bench')
end

-- Passes of a fixed number of windows, at least two in each: a single one has no median.
local function passes_of(n)
  local function fits(passes)
    return n % passes == 0 and n / passes >= 2 and n / passes <= 1000
  end
  for passes = 5, 12 do if fits(passes) then return passes end end
  for passes = 4, 1, -1 do if fits(passes) then return passes end end
  for passes = 13, 1000 do if fits(passes) then return passes end end
  return rounds_of(n)
end

-- The protocol of fixed iterations: each sample is one call, in as many rounds of one process or
-- passes of a sweep.
local function counted(protocol, n)
  local rounds, passes = rounds_of(n), passes_of(n)
  protocol.calls, protocol.samples = 1, n / rounds
  protocol.min_rounds, protocol.max_rounds = rounds, rounds
  protocol.passes, protocol.max_passes, protocol.windows = passes, passes, n / passes
  protocol.precision, protocol.budget_ns = 1e-4, 1e13
end

--- The protocol that a configuration asks for.
---@param opt table num_iterations, warmup_iterations, protocol, cache, seed
---@return table protocol
function M.protocol(opt)
  local given = type(opt.protocol) == 'string' and { level = opt.protocol } or {}
  for name, value in pairs(type(opt.protocol) == 'table' and opt.protocol or {}) do
    given[name] = value
  end
  given.cache, given.seed = given.cache or opt.cache, given.seed or opt.seed
  if opt.num_iterations then counted(given, opt.num_iterations) end
  given.warm_calls = opt.warmup_iterations
  return protocols.protocol(given)
end

--- The name of a device, which 'auto' is not.
---@param name string
---@return string device 'cpu', 'cuda:0' ...
function M.device(name)
  local device = require 'ridge.measure.device'
  return device.name(device.number(name, 'bench'))
end

--- Check batch sizes: whole numbers from 1, none twice.
---@param list table
---@return table list
function M.batches(list)
  local seen = {}
  for _, batch in ipairs(list) do
    if type(batch) ~= 'number' or batch < 1 or batch ~= math.floor(batch) then
      blame.raise(('bench: batch size %s is not a whole number from 1'):format(tostring(batch)),
        'EARG', 'bench')
    end
    if seen[batch] then
      blame.raise(('bench: batch size %d stands twice'):format(batch), 'EARG', 'bench')
    end
    seen[batch] = true
  end
  if #list == 0 then blame.raise('bench: there are no batch sizes', 'EARG', 'bench') end
  return list
end

--- A configuration with everything filled in.
-- >> ridge.bench.config{ fixed = true }.num_iterations
---@param given table|nil batch_sizes, input_shape, dtype, device, seed, protocol, cache, fixed,
---  num_iterations, warmup_iterations
---@return table config
function M.config(given)
  local opt = options.check(SPEC, given, 'bench.config')
  opt.batch_sizes = M.batches(opt.batch_sizes or M.BATCH_SIZES)
  if opt.fixed then
    opt.num_iterations = opt.num_iterations or M.NUM_ITERATIONS
    opt.warmup_iterations = opt.warmup_iterations or M.WARMUP_ITERATIONS
  end
  opt.device = M.device(opt.device)
  opt.protocol = M.protocol(opt)
  return opt
end

return M
