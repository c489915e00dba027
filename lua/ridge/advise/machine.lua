-- SPDX-License-Identifier: MIT
--- Findings of the machine: which device, which library, which instructions, 8-bit factors.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local available = require('ridge.monitor.available').available
local backend = require 'ridge.backend'
local choices = require 'ridge.choices'
local device = require 'ridge.device'
local memory = require 'ridge.memory'
local plain = require 'ridge.plain'
local run_of = require 'ridge.advise.run'
local say = require 'ridge.advise.say'
local unit = require 'ridge.show.unit'

local M = {}

local applies, no, unknown, open = say.applies, say.no, say.unknown, say.open
local percent = run_of.percent

local HEAVY = 0.2 -- of the time: as of bottlenecks
local ROUNDS = 8  -- of each product by each library

function M.available(run)
  local ok, why = available 'cuda'
  local measured = ok and 'there is a GPU' or ('no GPU: %s'):format(why)
  if not ok then return no(measured, 'all else of ridge runs on the CPU') end
  if run.s.device == 'cpu' then return applies(measured, 'the run does not use it', 'device') end
  return no(measured, 'the run is on it')
end

-- Products by another library than the one they take: what is measured is not kept.
local function libraries(run)
  local list = choices.measured(ROUNDS, function()
    memory.scope(run.trial:pass())
  end)
  local better = {}
  for _, row in ipairs(list) do
    if row.standard and row.path ~= row.standard then better[#better + 1] = row end
  end
  return #list, better
end

function M.backend(run)
  local s = run.s
  if s.device == 'cpu' and available 'cuda' then
    return applies('there is a GPU, and the run is on the CPU', 'it may be faster there', 'device')
  end
  if s.device ~= 'cpu' then return no('the run is on ' .. s.device, 'that is the GPU') end
  if not run.trial then return unknown(run:why_no_trial(), 'other_library') end
  local n, better = libraries(run)
  local measured = ('%s by each library'):format(plain.count(n, 'product'))
  if n == 0 then
    return no(measured, 'none of its products is one that libraries are chosen for')
  end
  if #better == 0 then return no(measured, 'none is faster than the one that is taken') end
  local row = better[1]
  return applies(('%s; %s faster by another, %s by %s'):format(measured,
    #better == 1 and '1 is' or #better .. ' are', choices.problem(row), row.path),
    'their intervals do not hold 1', 'other_library')
end

--- The highest level of instructions here, as backend.now() names them: what the processor itself
--- calls its instructions ('amx_bf16 amx_int8 avx512 ...') are other words.
---@return string
function M.best_isa() return ffi.string(C.rg_isa_name(C.rg_machine_facts().isa_level)) end

function M.hardware(run)
  local now, machine, best = backend.now(), backend.machine(), M.best_isa()
  local measured = ('%s of %s, %s on %s'):format(now.isa, best, plain.count(now.threads,
    'thread'), plain.count(machine.cores, 'processor'))
  if run.s.device ~= 'cpu' then
    local ok, why = available 'cudnn'
    measured = ok and 'cuDNN is there' or ('no cuDNN: %s'):format(why)
    return no(measured, 'own kernels compute what it does not')
  end
  if now.isa ~= best then
    return applies(measured, 'instructions that this processor has are not used', 'instructions')
  end
  if now.threads < machine.cores then
    return applies(measured, 'processors are not used', 'threads')
  end
  return no(measured, 'all is in use')
end

function M.several_devices()
  local n = device.count()
  local measured = plain.count(n, 'GPU')
  if n < 2 then return no(measured, 'a batch over several needs two') end
  return applies(measured, 'a batch can be cut over them', 'data_parallel')
end

-- -- Eight bits ---------------------------------------------------------------------------------

-- A matrix as bytes, and what each row of it stands for.
local function as_bytes(x)
  local scale = x:abs():max(-1, true) / 127
  return (x / scale):round():to 'i8', scale
end

function M.quantize(run)
  if not run.trial then return unknown(run:why_no_trial(), 'bytes') end
  local p = run:largest_product()
  if not p or p.dtype == 'i8' then return unknown('no linear layer ran', 'bytes') end
  local ridge, s = require 'ridge', run.s
  local x = ridge.randn(p.m, p.k, { device = s.device }):to(p.dtype)
  local w = ridge.randn(p.n, p.k, { device = s.device }):to(p.dtype)
  local x8, x_scale = as_bytes(x:to 'f32')
  local w8, w_scale = as_bytes(w:to 'f32')
  local across = w:transpose(1, 2)
  local exact, near = x:matmul(across):to 'f32', ridge.scaled_linear(x8, w8, x_scale, w_scale)
  local c, why = run.trial:pair(function() memory.scope(x.matmul, x, across) end,
    function() memory.scope(ridge.scaled_linear, x8, w8, x_scale, w_scale) end)
  if not c then return unknown(why, 'bytes') end
  local wrong = ((near - exact):square():mean() / exact:square():mean()):sqrt():item()
  local measured = ('the product that takes most, %s at %d x %d x %d, with 8-bit factors: %s, '
    .. 'error %.2g of its size'):format(percent(p.share), p.m, p.k, p.n, run_of.beside(c), wrong)
  if run_of.is_faster(c) and p.share > HEAVY then
    return applies(measured, 'it is faster in inference; what that costs in accuracy is told by '
      .. 'evaluating', 'bytes')
  end
  local faster = run_of.is_faster(c)
  if faster == nil then return open(measured, 'the interval holds 1', 'bytes', 'quiet') end
  return no(measured, faster and 'it is faster, and takes little of the time'
    or 'it is not faster here')
end

function M.quantized_accuracy(run)
  if not run.s.net then return unknown(run:why_no_trial()) end
  local n, small = 0, 0
  for _, each in ipairs(run.s.net:parameters()) do
    n = n + 1
    if each.tensor.dtype == 'i8' or each.tensor.dtype == 'u8' then small = small + 1 end
  end
  local measured = ('%d of %d parameters are of 8 bits'):format(small, n)
  if small == 0 then return no(measured, 'nothing is quantized, so it costs no accuracy') end
  return open(measured, 'what it costs is told by evaluating both', 'observed')
end

-- A cache of results has a hit where an input comes again: that is what it could have at most.
function M.result_cache(run)
  local found, why = run:repeated()
  if not found then return unknown(why) end
  local measured = ('%d of %d inputs of the loader %s as one before'):format(found.again, found.n,
    found.again == 1 and 'is' or 'are')
  if found.again == 0 then
    return no(measured, 'a cache of results would have no hits in an epoch; behind it the weights '
      .. 'are others')
  end
  return open(measured, 'ridge keeps no results: what an input that comes again would save is told '
    .. 'by keeping them')
end

function M.smaller_net(run)
  if not run.s.net then return unknown(run:why_no_trial(), 'smaller_net') end
  local measured = ('%s parameters'):format(unit.format('count',
    (run.s.net:num_parameters())))
  return open(measured, 'whether a smaller one would do is told by training one', 'smaller_net')
end

return M
