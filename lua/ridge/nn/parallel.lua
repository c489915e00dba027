-- SPDX-License-Identifier: MIT
--- Data parallel in one process: each device computes its part of a batch with the same parameters.
---
--- For one pass the parameters go to every device, which is an operation like others: its gradient
--- comes back, as soon as the parts have passed its layer (core/grad/early.c), so the sum over the
--- devices is added to the one set of parameters that an optimizer steps. What has not changed
--- since the last pass lies there still (rg_mirror), so only what was written to is copied. All
--- moves are asked for before the first part is computed, and no device waits for another's part.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local class = require 'ridge.class'
local copy = require 'ridge.nn.copy'
local dtype = require 'ridge.tensor.dtype'
local ops = require 'ridge.tensor.ops'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local Module = require 'ridge.nn.module'
local Parts = require('ridge.nn.running').Parts

local M = {}

local WHAT = 'nn.DataParallel'

-- -- Parts ----------------------------------------------------------------------------------------

-- Rows of the batch, the same in every tensor.
local function rows_of(self, args)
  local rows
  for i = 1, args.n do
    local x = args[i]
    if ref.is(x) then
      ref.need(x, WHAT)
      local n = x._t._ndim >= self.axis and x:size(self.axis)
      if not n or rows and n ~= rows then
        blame.raise(('%s: argument %d is %s; all have one size along axis %d, which the parts are '
          .. 'of'):format(WHAT, i, x:describe(), self.axis), 'ESHAPE')
      end
      rows = n
    end
  end
  if not rows then blame.raise(WHAT .. ': a batch is expected, and no tensor was given', 'EARG') end
  return rows
end

-- The arguments of one part, on its device.
local function part_of(self, args, first, n, device)
  local list = { n = args.n }
  for i = 1, args.n do
    local x = args[i]
    list[i] = ref.is(x) and x:narrow(self.axis, first, n):to(device) or x
  end
  return list
end

-- What the parts gave, as if it were one: tensors joined on the first device, tables by their keys.
local function joined(self, list, what)
  local first = list[1]
  if ref.is(first) then
    local there = {}
    for i, x in ipairs(list) do
      if not ref.is(x) or x._t._ndim < self.axis then
        blame.raise(('%s: %s is %s, which has no axis %d to join parts along'):format(WHAT, what,
          ref.is(x) and x:describe() or blame.show(x), self.axis), 'ESHAPE')
      end
      there[i] = x:to(self.devices[1])
    end
    return ops.concat(there, self.axis)
  end
  if type(first) ~= 'table' then return first end
  local out = {}
  for key in pairs(first) do
    local inner = {}
    for i, each in ipairs(list) do inner[i] = each[key] end
    out[key] = joined(self, inner, ('%s[%s]'):format(what, tostring(key)))
  end
  return out
end

-- -- The module -----------------------------------------------------------------------------------

local Parallel = class.class(WHAT, Module)
local SPEC = {
  devices = { 'table', required = true, doc = 'their names; the first one keeps the parameters' },
  axis = { 'integer', default = 1, min = 1, max = 8, doc = 'that batches lie along' },
  running = { 'string', default = 'first', choices = { 'first', 'all' },
    doc = 'parts that running statistics (nn.BatchNorm) are of' },
}

--- A module whose batches are split over devices: outputs come together on the first one, which
--- has the parameters and gets their gradients. It is moved there, so an optimizer is made behind
--- this. A batch of fewer rows than there are devices uses as many as it has rows.
---
--- While training, each part is normalised by itself (nn.BatchNorm), running statistics are those
--- of the first device's parts, or with running = 'all' of all parts, and dropout draws for the
--- parts one after the other.
---@param module table
---@param opts table {devices = {'cuda:0', 'cuda:1'}, axis = 1,
---  running = 'first'}
-- >> ridge.nn.DataParallel(ridge.nn.Linear(3, 2), {devices = {'cpu'}})(ridge.ones(4, 3)).shape
function Parallel:init(module, opts)
  Module.init(self)
  opts = options.check(SPEC, opts, WHAT)
  if not class.is_a(module, Module) then
    blame.raise(('%s: a module is expected, got %s'):format(WHAT, blame.show(module)), 'EARG')
  end
  if #opts.devices == 0 then blame.raise(WHAT .. ': the list of devices is empty', 'EARG') end
  self.devices, self.axis, self.running = {}, opts.axis, opts.running
  for i, name in ipairs(opts.devices) do
    local number = dtype.device(name == nil and '' or name, WHAT)
    self.devices[i] = ffi.string(C.rg_device_name(number))
  end
  local home = self.devices[1]
  for _, p in ipairs(module:parameters()) do
    if p.tensor.device ~= home then
      module:to(home)
      break
    end
  end
  self.module = self:child('module', module)
end

--- Convert the parameters; where they are was said when it was made.
---@param name string 'f32', 'f64', 'bf16' or 'f16'
---@param made table|nil as for every module
---@return table self
function Parallel:to(name, made)
  if dtype.is_device(name) and name ~= self.devices[1] then
    blame.raise(('%s: its parameters are on %s, the first of its devices; make it again for others')
      :format(WHAT, self.devices[1]), 'EARG')
  end
  return Module.to(self, name, made)
end

--- Each device's part, and what came out joined along the same axis.
---@param ... any what the module takes; tensors are split
---@return any what the module returns
function Parallel:forward(...)
  local args = { n = select('#', ...), ... }
  local rows = rows_of(self, args)
  local n = math.max(1, math.min(#self.devices, rows))
  local parts, replicas, rest = {}, { [self.devices[1]] = self.module }, {}
  for i = 1, n do
    local device = self.devices[i]
    local first, last = math.floor(rows * (i - 1) / n), math.floor(rows * i / n)
    parts[i] = part_of(self, args, first + 1, last - first, device)
    if not replicas[device] then
      replicas[device], rest[#rest + 1] = copy.replica(self.module, device, WHAT)
    end
  end
  local results, count = {}, 0
  local kept = self.running == 'all' and self.training and n > 1 and Parts(self.module)
  for i = 1, n do
    local function keep(...)
      results[i], count = { ... }, math.max(count, select('#', ...))
    end
    local replica = replicas[self.devices[i]]
    local function run() keep(replica(unpack(parts[i], 1, args.n))) end
    if kept then kept:part(replica, run) else run() end
  end
  if kept then kept:keep() end
  local out = {}
  for k = 1, count do
    local list = {}
    for i = 1, n do list[i] = results[i][k] end
    out[k] = n > 1 and joined(self, list, 'result ' .. k) or list[1]
  end
  for _, dispose in ipairs(rest) do dispose() end
  return unpack(out, 1, count)
end

function Parallel:__tostring()
  return ('nn.DataParallel(%s)\n  (module) %s'):format(table.concat(self.devices, ', '),
    (tostring(self.module):gsub('\n', '\n  ')))
end

M.DataParallel = Parallel

return M
