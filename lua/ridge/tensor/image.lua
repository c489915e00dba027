-- SPDX-License-Identifier: MIT
--- Operations on images as tensor methods: convolution and pooling.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local options = require 'ridge.options'

local M = { methods = {}, docs = {} }

local methods, docs = M.methods, M.docs
local slot, need = ref.slot, ref.need

local LAYOUT = { nchw = C.RG_NCHW, nhwc = C.RG_NHWC }

-- -- Sizes --------------------------------------------------------------------------------------

local function whole(value, least)
  return type(value) == 'number' and value == math.floor(value) and value >= least
    and value < 2 ^ 31
end

--- A size over rows and one over columns, from one number or two.
---@param value number|table
---@param what string the function asking, for errors
---@param name string the option
---@param least number
---@return number rows
---@return number columns
function M.pair(value, what, name, least)
  local rows, columns = value, value
  if type(value) == 'table' and #value == 2 then rows, columns = value[1], value[2] end
  if not whole(rows, least) or not whole(columns, least) then
    blame.raise(('%s: %s is %s; expected a whole number from %d, or {rows, columns}'):format(what,
      name, blame.show(value), least), 'EARG', what)
  end
  return rows, columns
end

--- Padding above, on the left, below, on the right: from one number, {rows, columns} or all four.
---@param value number|table
---@param what string
---@return number[] four
function M.padding(value, what)
  if type(value) == 'table' and #value == 4 then
    for i = 1, 4 do
      if not whole(value[i], 0) then
        blame.raise(('%s: padding is {top, left, bottom, right}, whole numbers from 0')
          :format(what), 'EARG', what)
      end
    end
    return value
  end
  local rows, columns = M.pair(value, what, 'padding', 0)
  return { rows, columns, rows, columns }
end

-- -- Convolution --------------------------------------------------------------------------------

--- Options of a convolution, for checking and for help.
M.CONV = {
  stride = { 'number|table', default = 1, doc = 'step, or {rows, columns}' },
  padding = { 'number|table|string', default = 0,
    doc = "zeros around: a number, {rows, columns}, {top, left, bottom, right}, or 'same'" },
  dilation = { 'number|table', default = 1, doc = "distance of the kernel's elements" },
  groups = { 'integer', default = 1, min = 1, doc = 'channels fall into so many groups' },
  layout = { 'string', default = 'nchw', choices = { 'nchw', 'nhwc' },
    doc = 'channels first or last' },
}

-- Zeros that keep the size at step 1: one more below and on the right where they do not halve.
local function same(kernel, dilation)
  local all = dilation * (kernel - 1)
  return math.floor(all / 2), math.ceil(all / 2)
end

--- The core's options of a convolution.
---@param opts table as M.CONV checks them
---@param rows number of the kernel
---@param columns number
---@param what string
---@return any rg_conv2d_options
function M.conv_options(opts, rows, columns, what)
  local o = ffi.new('rg_conv2d_options')
  o.stride[0], o.stride[1] = M.pair(opts.stride, what, 'stride', 1)
  o.dilation[0], o.dilation[1] = M.pair(opts.dilation, what, 'dilation', 1)
  if opts.padding == 'same' then
    o.pad_low[0], o.pad_high[0] = same(rows, tonumber(o.dilation[0]))
    o.pad_low[1], o.pad_high[1] = same(columns, tonumber(o.dilation[1]))
  elseif type(opts.padding) == 'string' then
    blame.raise(("%s: padding is %s; the only word for it is 'same'"):format(what,
      blame.show(opts.padding)), 'EARG', what)
  else
    local p = M.padding(opts.padding, what)
    o.pad_low[0], o.pad_low[1], o.pad_high[0], o.pad_high[1] = p[1], p[2], p[3], p[4]
  end
  o.groups, o.layout = opts.groups, LAYOUT[opts.layout]
  return o
end

local CONV = { bias = { 'any', doc = 'one number for each channel of the result' } }
for name, rule in pairs(M.CONV) do CONV[name] = rule end

docs.conv2d = 'conv2d(w, {bias =, stride = 1, padding = 0, dilation = 1, groups = 1}): convolution'
--- Two-dimensional convolution (cross-correlation) of images.
---@param x Tensor [n x c x h x w], channels last with layout = 'nhwc'
---@param w Tensor [o x c/groups x kh x kw]
---@param opts table|nil {bias = Tensor, stride = 1, padding = 0, dilation = 1, groups = 1,
---  layout = 'nchw'}
---@return Tensor
-- >> ridge.ones(1, 1, 4, 4):conv2d(ridge.ones(1, 1, 3, 3)).shape
function methods.conv2d(x, w, opts)
  need(x, 'conv2d')
  need(w, 'conv2d')
  opts = options.check(CONV, opts, 'conv2d')
  local b = opts.bias ~= nil and need(opts.bias, 'conv2d')._t or nil
  local shape = w._t._ndim == 4 and w._t._shape or nil
  local o = M.conv_options(opts, shape and tonumber(shape[2]) or 1,
    shape and tonumber(shape[3]) or 1, 'conv2d')
  call.settle()
  local st = C.rg_conv2d(x._t, w._t, b, o, slot)
  if st ~= 0 then call.again(st, C.rg_conv2d, x._t, w._t, b, o, slot) end
  return ref.wrap(slot[0])
end

-- -- Pooling ------------------------------------------------------------------------------------

--- Options of pooling, for checking and for help.
M.POOL = {
  stride = { 'number|table', doc = 'step, or {rows, columns}; the size when left out' },
  padding = { 'number|table', default = 0, doc = 'never the largest; 0 in averages' },
  layout = M.CONV.layout,
}
M.AVG_POOL = { skip_padding = { 'boolean', default = false,
  doc = 'divide by what lies in the image, not by the size of the window' } }
for name, rule in pairs(M.POOL) do M.AVG_POOL[name] = rule end

--- The core's options of pooling.
---@param size number|table
---@param opts table as M.POOL checks them
---@param what string
---@return any rg_pool2d_options
function M.pool_options(size, opts, what)
  local o = ffi.new('rg_pool2d_options')
  o.size[0], o.size[1] = M.pair(size, what, 'the size', 1)
  if opts.stride ~= nil then o.stride[0], o.stride[1] = M.pair(opts.stride, what, 'stride', 1) end
  local p = M.padding(opts.padding, what)
  o.pad_low[0], o.pad_low[1], o.pad_high[0], o.pad_high[1] = p[1], p[2], p[3], p[4]
  o.layout, o.skip_pad = LAYOUT[opts.layout], opts.skip_padding and 1 or 0
  return o
end

--- Pool with options that are made already.
---@param x Tensor
---@param name string 'max_pool2d' or 'avg_pool2d'
---@param o any rg_pool2d_options
---@return Tensor
function M.pool(x, name, o)
  need(x, name)
  call.settle()
  local f = C['rg_' .. name]
  local st = f(x._t, o, slot)
  if st ~= 0 then call.again(st, f, x._t, o, slot) end
  return ref.wrap(slot[0])
end

docs.max_pool2d = 'max_pool2d(size, {stride = size, padding = 0}): the largest of each window'
--- The largest of each window.
---@param x Tensor [n x c x h x w], channels last with layout = 'nhwc'
---@param size number|table of the window: one number, or {rows, columns}
---@param opts table|nil {stride =, padding = 0, layout = 'nchw'}
---@return Tensor
-- >> ridge.arange(0, 15):reshape(1, 1, 4, 4):max_pool2d(2)
function methods.max_pool2d(x, size, opts)
  opts = options.check(M.POOL, opts, 'max_pool2d')
  return M.pool(x, 'max_pool2d', M.pool_options(size, opts, 'max_pool2d'))
end

docs.avg_pool2d = 'avg_pool2d(size, {stride = size, padding = 0}): the average of each window'
--- The average of each window.
---@param x Tensor [n x c x h x w], channels last with layout = 'nhwc'
---@param size number|table of the window: one number, or {rows, columns}
---@param opts table|nil {stride =, padding = 0, skip_padding = false, layout = 'nchw'}
---@return Tensor
-- >> ridge.arange(0, 15):reshape(1, 1, 4, 4):avg_pool2d(2)
function methods.avg_pool2d(x, size, opts)
  opts = options.check(M.AVG_POOL, opts, 'avg_pool2d')
  return M.pool(x, 'avg_pool2d', M.pool_options(size, opts, 'avg_pool2d'))
end

return M
