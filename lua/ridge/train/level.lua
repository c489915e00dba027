-- SPDX-License-Identifier: MIT
--- The configuration levels of document 001 and the profiles of document 000: what they name is
--- switched, and what cannot be is said with the reason.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local attention = require 'ridge.nn.attention'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local chains = require 'ridge.nn.blocks'
local class = require 'ridge.class'
local grad = require 'ridge.tensor.grad'
local memory = require 'ridge.memory'
local recompute = require 'ridge.tensor.recompute'
local ref = require 'ridge.ffi.ref'
local dtype = require 'ridge.tensor.dtype'
local nn = require 'ridge.nn'
local options = require 'ridge.options'

local M = {}

local SPEC = {
  amp = { 'boolean', default = false, doc = 'products in bf16' },
  compile = { 'boolean', default = false, doc = 'the step of a batch as a plan' },
  recompute = { 'boolean', default = false, doc = 'blocks keep their input alone' },
  memory_format = { 'boolean', default = false, doc = 'the layout of images' },
  flash_attention = { 'boolean', default = false, doc = 'attention by tiles' },
  workers = { 'integer', min = 0, max = 256, doc = 'threads that load data' },
  accumulate = { 'integer', min = 1, doc = 'batches that make one step' },
  sample = { 'any', doc = 'inputs of a batch: says what recomputing keeps of it' },
}

--- What each level names (document 001).
M.LEVELS = {
  basic = {},
  advanced = { amp = true, compile = true, recompute = true, memory_format = true },
  ultra = { amp = true, compile = true, recompute = true, memory_format = true,
    flash_attention = true, workers = 8, accumulate = 8 },
  custom = {},
}

--- The profiles of document 000 (F217 to F219): options of a Trainer, to be given as they are;
--- width and layers are for the model.
M.PROFILES = {
  fast_training = { lr = 0.001, meta_learning_rate = 0.0001, amp = true, compile = true,
    device = 'auto', clip = 1, batch = 256 },
  memory_constrained = { lr = 0.001, amp = false, compile = false, recompute = true,
    device = 'cpu', width = 64, layers = 2, infer = 'i8' },
  high_throughput = { lr = 0.001, amp = true, compile = true, device = 'auto', batch = 1024,
    workers = 8, shuffle = false },
}

local function modules_of(model)
  local list = {}
  local function visit(m)
    list[#list + 1] = m
    for _, c in ipairs(m.children) do visit(c.module) end
  end
  visit(model)
  return list
end

-- Has the device that the model is on products in bf16?
local function has_bf16(model)
  local first = model:parameters()[1]
  local device = dtype.device(first and first.tensor.device or 'cpu', 'level')
  if device ~= 0 then
    local facts = ffi.new 'rg_device_facts'
    call.check(C.rg_device_facts_of(device, facts))
    return facts.capability >= 80
  end
  local f = C.rg_machine_facts()
  return f.has_amx_bf16 ~= 0 or f.has_avx512_bf16 ~= 0
end

-- Each switches one thing: what it says when done, or nil and why not.
local SWITCH = {}

function SWITCH.amp(model, out)
  if not has_bf16(model) then
    return nil, 'this processor has no products in bf16; computing in it would only round'
  end
  for _, p in ipairs(model:parameters()) do
    if p.tensor.dtype == 'f32' then
      out.autocast = 'bf16'
      return 'products in bf16, weights in f32'
    end
  end
  return nil, 'the model has no weights in f32, and products of others stay as they are'
end

function SWITCH.compile(_, out)
  out.compile = true
  return 'forward and back of a batch as one plan, from the second batch of a shape on'
end

function SWITCH.recompute(model)
  local list = chains.of(model)
  if #list == 0 then return nil, 'the model has no chain of blocks to keep only the inputs of' end
  chains.recompute(list)
  return ('%d blocks keep their input alone'):format(#list), nil, list
end

function SWITCH.memory_format(model)
  for _, m in ipairs(modules_of(model)) do
    if class.is_a(m, nn.Conv2d) then
      return nil, 'each convolution takes the layout that is fastest for its shape by itself'
    end
  end
  return nil, 'the model has no images'
end

function SWITCH.flash_attention(model)
  local n, already, others = 0, 0, 0
  for _, m in ipairs(modules_of(model)) do
    if class.is_a(m, attention.MultiHeadAttention) then
      if m.kind == 'matrix' then
        m.kind = 'tiles'
        n = n + 1
      elseif m.kind == 'tiles' then
        already = already + 1
      else
        others = others + 1
      end
    end
  end
  if n + already == 0 then
    return nil, others > 0 and 'the attention of the model goes by random features'
      or 'the model has no attention'
  end
  return ('%d layers of attention go by tiles now, %d did already'):format(n, already)
end

function SWITCH.workers(_, out, n)
  out.workers = n
  return ('%d threads load data, where the loader has none of its own'):format(n)
end

function SWITCH.accumulate(_, out, n)
  out.accumulate = n
  return ('%d batches make one step'):format(n)
end

local ORDER = { 'amp', 'compile', 'recompute', 'memory_format', 'flash_attention', 'workers',
  'accumulate' }

-- Bytes that a batch holds between the passes: the model's results, and what is kept for the
-- backward pass. nil: there is no room for them.
local function held(model, x, cast)
  local function pass()
    return cast and require('ridge').autocast(cast, model, x) or model(x)
  end
  ref.collect() -- what died earlier and is let go during the pass would be taken off
  local before = memory.stats(x.device).live
  local ok, y = pcall(memory.scope, grad.enable_grad, recompute.try, pass)
  if not ok then
    if blame.is_error(y) and y.code == 'ENOMEM' then return nil end
    error(y, 0)
  end
  local bytes = memory.stats(x.device).live - before
  if ref.is(y) then y:release() end
  return bytes
end

local function megabytes(bytes) return ('%.3g MB'):format(bytes / 1e6) end

-- The modes of all modules, which training for a moment changes.
local function in_training(model, f)
  local list, modes = modules_of(model), {}
  for i, m in ipairs(list) do modes[i] = m.training or false end
  model:train()
  local ok, result = pcall(f)
  for i, m in ipairs(list) do m:train(modes[i]) end
  if not ok then error(result, 0) end
  return result
end

--- Measure what a batch holds for the backward pass with recomputing and without it, and say
--- whether it pays (F38). The model, its running statistics and the random numbers are as before.
---@param model table a module
---@param blocks table of modules that keep their input alone
---@param x Tensor inputs of a batch, where the model is
---@param cast string|nil mixed precision
---@return string
function M.weigh(model, blocks, x, cast)
  return in_training(model, function()
    held(model, x, cast) -- weights in another form are made once
    local with = held(model, x, cast)
    chains.recompute(blocks, false)
    local ok, without = pcall(held, model, x, cast)
    chains.recompute(blocks, true)
    if not ok then error(without, 0) end
    local rows = ('recompute: a batch of %d rows'):format(x:size(1))
    if not with then return rows .. ' has no room with it either' end
    local kept = ('%s holds %s for the backward pass'):format(rows, megabytes(with))
    if not without then return kept .. '; without recomputing it has no room: it pays' end
    return ('%s, %s without recomputing: %s'):format(kept, megabytes(without),
      with < without and 'it pays where memory is short, for one more pass forward'
        or 'it does not pay')
  end)
end

--- Switch what a level names, and say what came of it.
---@param model table a module; recompute and flash_attention change it
---@param level string 'basic', 'advanced', 'ultra' or 'custom', in any case
---@param given table settings that win over the level's; all of them for 'custom'
---@param say function called with a line for each
---@param settled table what is decided otherwise: name to a text that says how
---@return table settings for the Trainer: autocast, compile, accumulate, workers
---@return table report list of {name =, on = boolean, text =}
---@return table|nil blocks that keep their input alone from here on
function M.switch(model, level, given, say, settled)
  if not nn.is_module(model) then
    blame.raise(('level: a module is expected, got %s'):format(blame.show(model)))
  end
  local named = type(level) == 'string' and M.LEVELS[level:lower()]
  if not named then
    blame.raise(('level: %s is none; there are basic, advanced, ultra and custom'):format(
      blame.show(level)))
  end
  local wanted = options.check(SPEC, given, 'level')
  for name, value in pairs(named) do
    if given[name] == nil then wanted[name] = value end
  end
  if wanted.sample ~= nil then ref.need(wanted.sample, 'level: sample') end
  local out, report, blocks = {}, {}, nil
  for _, name in ipairs(ORDER) do
    local value, text, why = wanted[name], nil, nil
    if settled[name] then
      text = settled[name]
    elseif value then
      local list
      text, why, list = SWITCH[name](model, out, value)
      blocks = blocks or list
    elseif named[name] then
      why = 'so it was given'
    end
    if text or why then
      report[#report + 1] = { name = name, on = text ~= nil, text = text or why }
      say(('%-16s %s  %s'):format(name, text and 'on ' or 'off', text or 'not switched: ' .. why))
    end
  end
  if #report == 0 then say(('level %s switches nothing'):format(level:lower())) end
  if blocks and wanted.sample ~= nil then
    say(M.weigh(model, blocks, wanted.sample, out.autocast))
  end
  return out, report, blocks
end

--- Switch what a level names, and say what came of it.
---@param model table a module; recompute and flash_attention change it
---@param level string|nil 'basic', 'advanced' (when left out), 'ultra' or 'custom', in any case
---@param given table|nil settings that win over the level's; all of them for 'custom'; sample, a
---  tensor, is inputs of a batch: what recomputing keeps of them is measured and said
---@param say function|nil called with a line for each; print when left out
---@return table settings for the Trainer: autocast, compile, accumulate, workers
---@return table report list of {name =, on = boolean, text =}
-- >> ridge.level(ridge.nn.Linear(2, 2), 'advanced')
function M.apply(model, level, given, say)
  if given ~= nil and type(given) ~= 'table' then
    blame.raise(('level: settings are a table, got %s'):format(blame.show(given)))
  end
  if say ~= nil and not blame.callable(say) then
    blame.raise(('level: say is a function, got %s'):format(blame.show(say)))
  end
  local out, report = M.switch(model, level == nil and 'advanced' or level, given or {},
    say or print, {})
  return out, report
end

--- The options of one of document 000's profiles.
---@param name string 'fast_training', 'memory_constrained' or 'high_throughput'
---@return table options of ridge.Trainer, which takes them as they are
-- >> ridge.profiles('fast_training').batch
function M.profile(name)
  local found = M.PROFILES[name]
  if not found then
    blame.raise(('profiles: %s is none; there are fast_training, memory_constrained and '
      .. 'high_throughput'):format(blame.show(name)))
  end
  local copy = {}
  for key, value in pairs(found) do copy[key] = value end
  return copy
end

return M
