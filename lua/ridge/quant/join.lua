-- SPDX-License-Identifier: MIT
--- Where values meet, in bytes: a sum around modules and branches side by side, each part with the
--- scale that it comes with.

local class = require('ridge.class').class
local concat = require('ridge.tensor.ops').concat
local make = require 'ridge.tensor.make'
local scaled_add = require('ridge.tensor.bytes').scaled_add
local Module = require 'ridge.nn.module'

local M = {}

-- A scale as a buffer.
local function keep(self, name, kind) self:buffer(name, kind.scale:clone()) end

-- -- Sums -----------------------------------------------------------------------------------------

local Residual = class('quant.Residual', Module)

--- Made by quant.static of an nn.Residual whose parts are bytes.
---@param from table nn.Residual
---@param opts table parts {a, b} and out (nil where numbers are wanted), each {dtype, zero, scale};
---  activation, answers (the type of numbers)
function Residual:init(from, opts)
  Module.init(self)
  self.training = false
  if from.around then self.around = self:child('around', from.around) end
  self.inner = self:child('inner', from.inner)
  self.activation, self.answers = opts.activation or 'none', opts.answers
  self.a_zero, self.b_zero = opts.parts[1].zero, opts.parts[2].zero
  keep(self, 'a_scale', opts.parts[1])
  keep(self, 'b_scale', opts.parts[2])
  if opts.out then
    self.out = { dtype = opts.out.dtype, zero = opts.out.zero }
    keep(self, 'y_scale', opts.out)
  end
end

local add = {} -- options of the sum

--- The sum of what goes around and what goes through.
---@param x Tensor bytes
---@return Tensor bytes, or numbers where no layer of bytes follows
function Residual:forward(x)
  local t, out = self._tensors, self.out
  local a = self.around and self.around(x) or x
  local b = self.inner(x)
  add.activation, add.a_zero, add.b_zero = self.activation, self.a_zero, self.b_zero
  add.dtype, add.y_scale, add.y_zero = out and out.dtype or self.answers, out and t.y_scale,
    out and out.zero or 0
  return scaled_add(a, b, t.a_scale, t.b_scale, add)
end

--- How often numbers change between f32 and bytes in a call.
---@return integer
function Residual:conversions() return self.out and 0 or 1 end

function Residual:__tostring()
  local parts = {}
  for _, c in ipairs(self.children) do
    parts[#parts + 1] = ('\n  (%s) %s'):format(c.name, (tostring(c.module):gsub('\n', '\n  ')))
  end
  return ('quant.Residual(%ssum of bytes%s)%s'):format(
    self.activation ~= 'none' and self.activation .. ', ' or '', self.out and ', bytes on' or '',
    table.concat(parts))
end

M.Residual = Residual

-- -- Branches -------------------------------------------------------------------------------------

local Concat = class('quant.Concat', Module)

--- Made by quant.static of an nn.Concat whose parts are bytes; a part of another scale, because
--- somebody else reads it too, is rounded to that of the result.
---@param from table nn.Concat
---@param opts table parts and out, each {dtype, zero, scale}
function Concat:init(from, opts)
  Module.init(self)
  self.training, self.axis = false, from.axis
  self.out, self.again = { dtype = opts.out.dtype, zero = opts.out.zero }, {}
  keep(self, 'y_scale', opts.out)
  for i, c in ipairs(from.children) do
    local part = opts.parts[i]
    self:child(c.name, c.module)
    if not M.same(part, opts.out) then
      self.again[c.name] = { zero = part.zero }
      keep(self, 'scale_' .. c.name, part)
    end
  end
end

local again = {} -- options of rounding once more

--- Bytes of all branches, side by side.
---@param x Tensor bytes
---@return Tensor bytes
function Concat:forward(x)
  local parts, t = {}, self._tensors
  for i, c in ipairs(self.children) do
    local part, other = c.module(x), self.again[c.name]
    if other then
      again.dtype, again.a_zero = self.out.dtype, other.zero
      again.y_scale, again.y_zero = t.y_scale, self.out.zero
      part = scaled_add(part, nil, t['scale_' .. c.name], nil, again)
    end
    parts[i] = part
  end
  return concat(parts, self.axis)
end

function Concat:__tostring()
  local parts = {}
  for _, c in ipairs(self.children) do
    parts[#parts + 1] = ('\n  (%s) %s'):format(c.name, (tostring(c.module):gsub('\n', '\n  ')))
  end
  return ('quant.Concat(axis %d, bytes)%s'):format(self.axis, table.concat(parts))
end

M.Concat = Concat

-- -- What bytes stand for -------------------------------------------------------------------------

--- What bytes of a range stand for, as a layer keeps it.
---@param scale number
---@param zero integer
---@param dtype string
---@param device string
---@return table {dtype, zero, scale}
function M.kind(scale, zero, dtype, device)
  return { dtype = dtype, zero = zero, scale = make.full(scale, 1, { device = device }) }
end

--- Do bytes of both stand for the same numbers?
---@param a table {dtype, zero, scale}
---@param b table
---@return boolean
function M.same(a, b)
  return a.dtype == b.dtype and a.zero == b.zero and a.scale:item() == b.scale:item()
end

return M
