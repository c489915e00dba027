-- SPDX-License-Identifier: MIT
--- Operations on images as tensor methods: convolution and pooling.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local options = require 'ridge.options'
local schema = require 'ridge.tensor.schema'
local settings = require 'ridge.tensor.settings'

local M = { methods = {}, docs = {} }

local methods, docs = M.methods, M.docs
local surplus = require('ridge.tensor.elementwise').surplus
local slot, need = ref.slot, ref.need

-- -- Sizes --------------------------------------------------------------------------------------

M.pair = settings.pair

--- Padding above, on the left, below, on the right: from one number, {rows, columns} or all four.
---@param value number|table
---@param what string
---@return number[] four
function M.padding(value, what)
  if type(value) == 'table' and #value == 4 then
    for i = 1, 4 do
      if type(value[i]) == 'table' then
        blame.raise(('%s: padding {top, left, bottom, right} is of numbers, got %s'):format(what,
          blame.show(value[i])), 'EARG', what)
      end
      M.pair(value[i], what, 'padding {top, left, bottom, right}', 0)
    end
    return value
  end
  local rows, columns = M.pair(value, what, 'padding', 0)
  return { rows, columns, rows, columns }
end

-- -- Convolution --------------------------------------------------------------------------------

local CONV = settings.of(schema.of 'conv2d', {
  as = { pad_low = false, pad_high = false, act = false },
  rules = {
    padding = { 'number|table|string', default = 0,
      doc = "zeros around: a number, {rows, columns}, {top, left, bottom, right}, or 'same'" },
    groups = { min = 1 },
  },
})

--- Options of a convolution, for checking and for help.
M.CONV = CONV.spec

-- Zeros that keep the size at step 1: one more below and on the right where they do not halve.
local function same(kernel, dilation)
  local all = dilation * (kernel - 1)
  return math.floor(all / 2), math.ceil(all / 2)
end

-- The four paddings into the core's options.
local function pad(o, p)
  o.pad_low[0], o.pad_low[1], o.pad_high[0], o.pad_high[1] = p[1], p[2], p[3], p[4]
  return o
end

--- The same into a struct that is there.
---@param o any rg_conv2d_options
---@param opts table
---@param rows number of the kernel
---@param columns number
---@param what string
---@return any o
function M.write_conv(o, opts, rows, columns, what)
  CONV.write(o, opts, what)
  if opts.padding == 'same' then
    o.pad_low[0], o.pad_high[0] = same(rows, tonumber(o.dilation[0]))
    o.pad_low[1], o.pad_high[1] = same(columns, tonumber(o.dilation[1]))
  elseif type(opts.padding) == 'string' then
    blame.raise(("%s: padding is %s; the only word for it is 'same'"):format(what,
      blame.show(opts.padding)), 'EARG', what)
  else
    pad(o, M.padding(opts.padding, what))
  end
  return o
end

--- The core's options of a convolution.
---@param opts table as M.CONV checks them
---@param rows number of the kernel
---@param columns number
---@param what string
---@return any rg_conv2d_options
function M.conv_options(opts, rows, columns, what)
  return M.write_conv(ffi.new('rg_conv2d_options'), opts, rows, columns, what)
end

local BIASED = { bias = { 'any', doc = 'one number for each channel of the result' } }
for name, rule in pairs(M.CONV) do BIASED[name] = rule end

docs.conv2d = 'conv2d(w, {bias =, stride = 1, padding = 0, dilation = 1, groups = 1}): convolution'
--- Two-dimensional convolution (cross-correlation) of images.
---@param x Tensor [n x c x h x w], channels last with layout = 'nhwc'
---@param w Tensor [o x c/groups x kh x kw]
---@param opts table|nil {bias = Tensor, stride = 1, padding = 0, dilation = 1, groups = 1,
---  layout = 'nchw'}
---@return Tensor
-- >> ridge.ones(1, 1, 4, 4):conv2d(ridge.ones(1, 1, 3, 3)).shape
function methods.conv2d(x, w, opts, extra)
  if extra ~= nil then surplus('conv2d', 'w, opts', extra) end
  need(x, 'conv2d')
  need(w, 'conv2d')
  opts = options.check(BIASED, opts, 'conv2d')
  if opts.bias ~= nil then need(opts.bias, 'conv2d') end
  call.settle()
  local shape = w._t._ndim == 4 and w._t._shape or nil
  local o = M.conv_options(opts, shape and tonumber(shape[2]) or 1,
    shape and tonumber(shape[3]) or 1, 'conv2d')
  local b = opts.bias ~= nil and opts.bias._t or nil
  local st = C.rg_conv2d(x._t, w._t, b, o, slot)
  if st ~= 0 then call.again(st, C.rg_conv2d, x._t, w._t, b, o, slot) end
  return ref.wrap(slot[0])
end

-- -- Pooling ------------------------------------------------------------------------------------

local POOL = {}
for _, name in ipairs { 'max_pool2d', 'avg_pool2d' } do
  POOL[name] = settings.of(schema.of(name), {
    as = { size = false, pad_low = false, pad_high = false,
      skip_pad = name == 'avg_pool2d' and 'skip_padding' },
    rules = { padding = { 'number|table', default = 0,
      doc = 'never the largest; 0 in averages' }, stride = { default = 'none given' } },
  })
end

--- Options of pooling, for checking and for help.
M.POOL, M.AVG_POOL = POOL.max_pool2d.spec, POOL.avg_pool2d.spec

--- The core's options of pooling.
---@param size number|table
---@param opts table as M.POOL or M.AVG_POOL checks them
---@param what string
---@return any rg_pool2d_options
function M.pool_options(size, opts, what)
  local o = ffi.new('rg_pool2d_options')
  o.size[0], o.size[1] = M.pair(size, what, 'the size', 1)
  return pad(POOL.avg_pool2d.write(o, opts, what), M.padding(opts.padding, what))
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
function methods.max_pool2d(x, size, opts, extra)
  if extra ~= nil then surplus('max_pool2d', 'size, opts', extra) end
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
function methods.avg_pool2d(x, size, opts, extra)
  if extra ~= nil then surplus('avg_pool2d', 'size, opts', extra) end
  opts = options.check(M.AVG_POOL, opts, 'avg_pool2d')
  return M.pool(x, 'avg_pool2d', M.pool_options(size, opts, 'avg_pool2d'))
end

return M
