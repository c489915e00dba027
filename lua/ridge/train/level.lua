-- SPDX-License-Identifier: MIT
--- The configuration levels of document 001 and the profiles of document 000: what they name is
--- switched, and what cannot be is said with the reason.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local attention = require 'ridge.nn.attention'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local class = require 'ridge.class'
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
  workers = { 'integer', min = 0, doc = 'threads that load data' },
  accumulate = { 'integer', min = 1, doc = 'batches that make one step' },
}

--- What each level names (document 001).
M.LEVELS = {
  basic = {},
  advanced = { amp = true, compile = true, recompute = true, memory_format = true },
  ultra = { amp = true, compile = true, recompute = true, memory_format = true,
    flash_attention = true, workers = 8, accumulate = 8 },
  custom = {},
}

--- The profiles of document 000, as far as a CPU has them: options for a training.
M.PROFILES = {
  fast_training = { lr = 0.001, amp = true, compile = true, clip = 1, batch = 256 },
  memory_constrained = { lr = 0.001, amp = false, compile = false, recompute = true, width = 64,
    layers = 2 },
  high_throughput = { lr = 0.001, amp = true, compile = true, batch = 1024, workers = 8 },
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
  out.autocast = 'bf16'
  return 'products in bf16, weights in f32'
end

function SWITCH.compile(_, out)
  out.compile = true
  return 'forward and back of a batch as one plan'
end

-- The repeated part of the model: the longest chain of modules, each of which is made of others.
function SWITCH.recompute(model)
  local n = 0
  for _, m in ipairs(modules_of(model)) do
    if class.is_a(m, nn.Sequential) and #m.children > 1 then
      for _, c in ipairs(m.children) do
        if #c.module.children > 0 then
          c.module:recompute()
          n = n + 1
        end
      end
    end
  end
  if n == 0 then return nil, 'the model has no chain of blocks to keep only the inputs of' end
  return ('%d blocks keep their input alone'):format(n)
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
  local n, already = 0, 0
  for _, m in ipairs(modules_of(model)) do
    if class.is_a(m, attention.MultiHeadAttention) then
      if m.kind == 'matrix' then
        m.kind = 'tiles'
        n = n + 1
      elseif m.kind == 'tiles' then
        already = already + 1
      end
    end
  end
  if n + already == 0 then return nil, 'the model has no attention' end
  return ('%d layers of attention go by tiles now, %d did already'):format(n, already)
end

function SWITCH.workers(_, out, n)
  out.workers = n
  return ('%d threads load data'):format(n)
end

function SWITCH.accumulate(_, out, n)
  out.accumulate = n
  return ('%d batches make one step'):format(n)
end

local ORDER = { 'amp', 'compile', 'recompute', 'memory_format', 'flash_attention', 'workers',
  'accumulate' }

--- Switch what a level names, and say what came of it.
---@param model table a module; recompute and flash_attention change it
---@param level string 'basic', 'advanced', 'ultra' or 'custom', in any case
---@param given table|nil settings that win over the level's; all of them for 'custom'
---@param say function|nil called with a line for each; print when left out
---@return table settings for the Trainer: autocast, compile, accumulate, workers
---@return table report list of {name =, on = boolean, text =}
-- >> ridge.level(ridge.nn.Linear(2, 2), 'advanced')
function M.apply(model, level, given, say)
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
    if (given or {})[name] == nil then wanted[name] = value end
  end
  local out, report = {}, {}
  say = say or print
  for _, name in ipairs(ORDER) do
    local value = wanted[name]
    if value then
      local text, why = SWITCH[name](model, out, value)
      report[#report + 1] = { name = name, on = text ~= nil, text = text or why }
      say(('%-16s %s  %s'):format(name, text and 'on ' or 'off', text or 'not switched: ' .. why))
    end
  end
  if #report == 0 then say(('level %s switches nothing'):format(level:lower())) end
  return out, report
end

--- The options of one of document 000's profiles.
---@param name string 'fast_training', 'memory_constrained' or 'high_throughput'
---@return table options lr, amp, compile, recompute, clip, batch, workers, width, layers, as named
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
