-- SPDX-License-Identifier: MIT
--- Bytes that stay bytes from one layer to the next: through Sequentials, pooling, and where values
--- meet (nn.Residual, nn.Concat).
---
--- Each value on its way is an edge: who makes it, and all who read it. It can be bytes where what
--- makes it can give them and everybody who reads it takes them with one scale: layers do with the
--- range that they were calibrated with, sums with any, and a concat hands the scale of its result
--- on to its parts, so that the ranges of what is joined agree.

local Concat = require('ridge.nn.concat').Concat
local MaxPool2d = require('ridge.nn.image').MaxPool2d
local Residual = require('ridge.nn.residual').Residual
local Sequential = require 'ridge.nn.sequential'
local fixed = require 'ridge.quant.fixed'
local fold = require 'ridge.quant.fold'
local join = require 'ridge.quant.join'
local nets = require 'ridge.quant.nets'
local pool = require 'ridge.quant.pool'
local scheme = require 'ridge.quant.scheme'

local M = {}

-- -- Who reads what -------------------------------------------------------------------------------

local Walk = {}
Walk.__index = Walk

local function edge(maker) return { maker = maker, readers = {}, joins = {} } end

-- Numbers of somebody who knows no bytes, or for somebody.
local function open()
  local e = edge()
  e.open = true
  return e
end

local function made_by(self, maker)
  local e = edge(maker)
  self.edges[#self.edges + 1] = e
  return e
end

local function joined(self, module, parts)
  local j = { module = module, parts = parts, live = true }
  j.is_sum = getmetatable(module) == Residual
  for _, part in ipairs(parts) do part.joins[#part.joins + 1] = j end
  j.out = made_by(self)
  j.out.join = j
  self.joins[#self.joins + 1] = j
  return j.out
end

-- A pooling keeps the scale, so that what comes in is read by nobody else.
local function pooled(e, s, at)
  local behind = edge()
  behind.from, behind.place = e, { s = s, at = at }
  e.forked = e.child ~= nil
  e.child = behind
  return behind
end

-- An activation behind a sum becomes part of it, where nobody else sees the sum.
local function takes(e, act)
  local j = e.join
  if not (act and j and j.is_sum and not j.activation and not e.shared and not e.child)
    or #e.readers + #e.joins > 0 then
    return false
  end
  j.activation = act
  return true
end

function Walk:step(s, at, e)
  local module = s[at]
  if self.once(module) then
    if getmetatable(module) == MaxPool2d and pool.fits(module) then return pooled(e, s, at) end
    if takes(e, fold.activation_of(module)) then
      e.join.place = { s = s, at = at }
      return e
    end
  end
  return self:go(module, e)
end

function Walk:inside(module, e)
  local kind = getmetatable(module)
  if module.x_dtype then
    e.readers[#e.readers + 1] = module
    return made_by(self, module)
  elseif kind == Sequential and not self.taken[module] then
    for at = 1, #module.children do e = self:step(module, at, e) end
    return e
  elseif (kind == Residual or kind == Concat) and not self.taken[module] then
    e.shared = true
    local parts = {}
    if kind == Residual then
      parts = { module.around and self:go(module.around, e) or e, self:go(module.inner, e) }
    else
      for i, c in ipairs(module.children) do parts[i] = self:go(c.module, e) end
    end
    return joined(self, module, parts)
  elseif fold.hands_on(module) then
    return e
  end
  e.open = true
  for _, c in ipairs(module.children) do self:go(c.module, open()).open = true end
  return open()
end

-- What is used at several places reads and gives numbers.
function Walk:go(module, e)
  if self.once(module) then return self:inside(module, e) end
  e.open = true
  if not self.seen[module] then
    self.seen[module] = true
    self:inside(module, open()).open = true
  end
  return open()
end

-- -- What can be bytes ----------------------------------------------------------------------------

-- Behind all pooling, where an edge is read; nil where it has to be numbers.
local function leaf(e)
  while e.child do
    if e.open or e.forked or #e.readers + #e.joins > 0 then return nil end
    e = e.child
  end
  return not e.open and e or nil
end

local function root(e)
  while e.from do e = e.from end
  return e
end

local function kind_of(module)
  return { dtype = module.x_dtype, zero = module.x_zero, scale = module.x_scale }
end

local target

local function of_join(self, e, j)
  if not j.is_sum then
    local out = leaf(j.out)
    return out and target(self, out)
  end
  for i, part in ipairs(j.parts) do
    local range = part == e and self.ranges[self.names[j.module]]
    range = range and range[i]
    if range then
      local scale, zero = scheme.of(range[1], range[2], self.dtype)
      return join.kind(scale, zero, self.dtype, self.device)
    end
  end
end

-- What bytes of an edge stand for, as those who read it want them; nil where they disagree.
function target(self, e)
  local kind
  for _, module in ipairs(e.readers) do
    local wanted = kind_of(module)
    if kind and not join.same(kind, wanted) then return nil end
    kind = wanted
  end
  for _, j in ipairs(e.joins) do kind = kind or of_join(self, e, j) end
  return kind
end

local function bytes_of(self, e)
  local first, last = root(e), leaf(root(e))
  if not last or not (first.maker or first.join and first.join.live) then return nil end
  return target(self, last)
end

local function can_be(self, j)
  if self.no_joins then return false end
  for _, part in ipairs(j.parts) do
    if leaf(root(part)) ~= part or not bytes_of(self, part) then return false end
  end
  return j.is_sum or bytes_of(self, j.out) ~= nil
end

-- Joins that cannot be bytes want numbers, and then others cannot.
local function settle(self)
  local changed
  repeat
    changed = false
    for _, j in ipairs(self.joins) do
      if j.live and not can_be(self, j) then
        j.live, changed = false, true
        for _, part in ipairs(j.parts) do part.open = true end
      end
    end
  until not changed
end

-- -- Bytes ----------------------------------------------------------------------------------------

-- The type in which a layer before a sum answers.
local function answers_of(j)
  for _, part in ipairs(j.parts) do
    local first = root(part)
    local found = first.maker and first.maker.answers or first.join and answers_of(first.join)
    if found then return found end
  end
end

local function make_joins(self, net)
  local n = 0
  for _, j in ipairs(self.joins) do
    if j.live then
      local parts = {}
      for i, part in ipairs(j.parts) do parts[i] = bytes_of(self, part) end
      local kind = j.is_sum and join.Residual or join.Concat
      local new = kind(j.module, { parts = parts, out = bytes_of(self, j.out),
        activation = j.activation, answers = answers_of(j) })
      if j.place then
        local s, at = j.place.s, j.place.at
        s[at] = fold.Folded(getmetatable(s[at]).__name, self.names[j.module])
      end
      net, n = nets.exchange(net, { [j.module] = new }), n + 1
    end
  end
  return net, n
end

local function make_bytes(self)
  for _, e in ipairs(self.edges) do
    local kind = (e.maker or e.join.live) and bytes_of(self, e)
    if kind then
      if e.maker then fixed.hand_on(e.maker, kind) end
      while e.child do
        e = e.child
        local s, at = e.place.s, e.place.at
        s[at] = pool.MaxPool2d(s[at])
      end
      for _, module in ipairs(e.readers) do module.fed = true end
    end
  end
end

--- Link layers of a net whose bytes go nowhere but into others that take them.
---@param net table
---@param taken table|nil names of modules that are taken apart, of ridge.quant.apart
---@param sums table|nil ranges of the parts of each nn.Residual, by its name, and dtype; sums whose
---  parts no layer reads stay numbers without it; joins = false: all of them do, and concats
---@return table net, or what stands for it
---@return integer joins that are made of bytes
function M.link(net, taken, sums)
  local uses, by = fold.uses_of(net), {}
  local first = net:parameters()[1]
  local self = setmetatable({ names = {}, taken = by, seen = {}, edges = {}, joins = {},
    ranges = sums and sums.ranges or {}, dtype = sums and sums.dtype,
    no_joins = sums and sums.joins == false,
    device = first and first.tensor.device or 'cpu',
    once = function(module) return uses[module] == 1 end }, Walk)
  nets.each(net, function(module, name)
    self.names[module] = name
    by[module] = taken and taken[name] or nil
  end)
  self:inside(net, open()).open = true
  settle(self)
  make_bytes(self)
  return make_joins(self, net)
end

return M
