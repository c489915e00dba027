-- SPDX-License-Identifier: MIT
--- What convolutions and pooling of ONNX share: windows over one, two or three axes.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'

local M = {}

local MOST = 2 ^ 16 -- places of a window, where each is a call or more of its own

--- Raise where a window that is computed place by place has too many of them.
---@param n table node
---@param cells number places of the window
function M.few(n, cells)
  if not (cells <= MOST) then
    n:fail('a window of %.0f elements; at most %d are computed', cells, MOST)
  end
end

--- One number for each axis of the window.
---@param n table node
---@param name string
---@param rank number
---@param default number
---@return table
function M.each(n, name, rank, default)
  local list = n:ints(name) or {}
  for i = 1, rank do
    list[i] = list[i] or default
    if list[i] < default then n:fail('%s is %d, and %d at least', name, list[i], default) end
  end
  return list
end

--- Paddings before and behind each axis: given, or what keeps ceil(size / stride).
---@param n table node
---@param sizes table
---@param kernel table
---@param strides table
---@param dilations table
---@return table before
---@return table after
function M.padding(n, sizes, kernel, strides, dilations)
  local rank, auto = #sizes, n:string('auto_pad', 'NOTSET')
  local before, after, pads = {}, {}, n:ints 'pads'
  for i = 1, rank do
    if auto == 'NOTSET' then
      before[i], after[i] = pads and pads[i] or 0, pads and pads[i + rank] or 0
    elseif auto == 'VALID' then
      before[i], after[i] = 0, 0
    else
      local out = math.ceil(sizes[i] / strides[i])
      local all = math.max(0, (out - 1) * strides[i] + dilations[i] * (kernel[i] - 1) + 1
        - sizes[i])
      local less, more = math.floor(all / 2), math.ceil(all / 2)
      before[i], after[i] = auto == 'SAME_LOWER' and more or less,
        auto == 'SAME_LOWER' and less or more
    end
  end
  return before, after
end

--- Sizes behind batch and channels.
---@param x Tensor
---@return table
function M.spatial(x)
  local list = {}
  for i = 3, x.ndim do list[i - 2] = x.shape[i] end
  return list
end

--- Zeros, or another number, around an axis.
---@param x Tensor
---@param axis number from 1
---@param before number
---@param after number
---@param value number|nil
---@return Tensor
function M.padded(x, axis, before, after, value)
  if before == 0 and after == 0 then return x end
  local shape, list = x.shape, { x }
  if before > 0 then
    shape[axis] = before
    table.insert(list, 1, kit.full(value or 0, shape, x))
  end
  if after > 0 then
    shape[axis] = after
    list[#list + 1] = kit.full(value or 0, shape, x)
  end
  return ridge.concat(list, axis)
end

--- Paddings of each axis, as ridge takes them.
---@param before table
---@param after table
---@return table
function M.pairs(before, after)
  local list = {}
  for i = 1, #before do list[i] = { before[i], after[i] } end
  return list
end

return M
