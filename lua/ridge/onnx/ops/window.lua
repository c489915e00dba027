-- SPDX-License-Identifier: MIT
--- What convolutions and pooling of ONNX share: windows over one, two or three axes.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'

local M = {}

--- One number for each axis of the window.
---@param n table node
---@param name string
---@param rank number
---@param default number
---@return table
function M.each(n, name, rank, default)
  local list = n:ints(name) or {}
  for i = 1, rank do list[i] = list[i] or default end
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

-- A volume by its planes: a sum of flat convolutions over the kernel's depth.
local function conv3d(x, w, bias, o)
  x = M.padded(x, 3, o.before[1], o.after[1])
  local b, c, depth = x.shape[1], x.shape[2], x.shape[3]
  local kernel, y = w.shape[3], nil
  local out = math.floor((depth - o.dilations[1] * (kernel - 1) - 1) / o.strides[1]) + 1
  for k = 1, kernel do
    local planes = x:narrow(3, 1 + (k - 1) * o.dilations[1], out, o.strides[1])
    planes = planes:transpose(2, 3):reshape(b * out, c, x.shape[4], x.shape[5])
    local part = planes:conv2d(w:select(3, k):contiguous(), {
      stride = { o.strides[2], o.strides[3] }, dilation = { o.dilations[2], o.dilations[3] },
      padding = { o.before[2], o.before[3], o.after[2], o.after[3] }, groups = o.groups,
      bias = k == 1 and bias or nil })
    y = y and y + part or part
  end
  return y:reshape(b, out, y.shape[2], y.shape[3], y.shape[4]):transpose(2, 3)
end

--- Convolve, whatever the number of axes.
---@param n table node
---@param x Tensor
---@param w Tensor
---@param bias Tensor|nil
---@param o table strides, dilations, before, after (lists), groups
---@return Tensor
function M.conv(n, x, w, bias, o)
  local rank = x.ndim - 2
  if rank < 1 or rank > 3 then n:fail('of %d axes; 1, 2 and 3 are computed', rank) end
  if rank == 3 then return conv3d(x, w, bias, o) end
  if rank == 1 then
    return x:unsqueeze(3):conv2d(w:unsqueeze(3), { stride = { 1, o.strides[1] },
      dilation = { 1, o.dilations[1] }, padding = { 0, o.before[1], 0, o.after[1] },
      groups = o.groups, bias = bias }):squeeze(3)
  end
  return x:conv2d(w, { stride = o.strides, dilation = o.dilations,
    padding = { o.before[1], o.before[2], o.after[1], o.after[2] }, groups = o.groups,
    bias = bias })
end

return M
