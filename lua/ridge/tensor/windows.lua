-- SPDX-License-Identifier: MIT
--- Convolutions and pooling over one, two or three axes, and transposed convolution, as methods:
--- made of the operations on images, which are fast.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local options = require 'ridge.options'

local M = { methods = {}, docs = {} }

local methods, docs = M.methods, M.docs
local surplus = require('ridge.tensor.elementwise').surplus
local need, slot = ref.need, ref.slot

-- -- Numbers for each axis ------------------------------------------------------------------

local function whole(value, least)
  return type(value) == 'number' and value == math.floor(value) and value >= least
    and value < 2 ^ 31
end

-- One number for all of d axes, or a list of d.
local function each(value, d, what, name, least)
  local list = {}
  for i = 1, d do
    list[i] = type(value) == 'table' and value[i] or value
    if type(value) == 'table' and #value ~= d or not whole(list[i], least) then
      blame.raise(('%s: %s is %s; expected a whole number from %d, or a list of %d'):format(what,
        name, blame.show(value), least, d), 'EARG', what)
    end
  end
  return list
end

-- Before and behind each axis, from a number, a list of d, or a list of d pairs.
local function padding(value, d, what)
  local low, high = {}, {}
  for i = 1, d do
    local pair = type(value) == 'table' and value[i] or value
    if type(pair) == 'number' then pair = { pair, pair } end
    if type(value) == 'table' and #value ~= d or type(pair) ~= 'table' or #pair ~= 2
      or not whole(pair[1], 0) or not whole(pair[2], 0) then
      blame.raise(('%s: padding is %s; expected a whole number from 0, or a list of %d, each a '
        .. 'number or {before, behind}'):format(what, blame.show(value), d), 'EARG', what)
    end
    low[i], high[i] = pair[1], pair[2]
  end
  return low, high
end

-- How many axes windows go over: those behind batch and channels.
local function axes_of(x, what)
  need(x, what)
  local d = x.ndim - 2
  if d < 1 or d > 3 then
    blame.raise(('%s: x is %s, wanted [n x c x 1 to 3 axes]'):format(what, x:describe()), 'ESHAPE',
      what)
  end
  return d
end

local function padded(x, low, high, value)
  local any, list = false, {}
  for i = 1, #low do
    list[i] = { low[i], high[i] }
    any = any or low[i] ~= 0 or high[i] ~= 0
  end
  return any and x:pad(list, { value = value }) or x
end

M.each, M.padding, M.axes_of, M.padded = each, padding, axes_of, padded

-- -- Convolution ------------------------------------------------------------------------------

local CONV = {
  bias = { 'any', doc = 'one number for each channel of the result' },
  stride = { 'number|table', default = 1, doc = 'step, or one for each axis' },
  dilation = { 'number|table', default = 1, doc = "distance of the kernel's elements" },
  padding = { 'number|table', default = 0,
    doc = 'zeros around: a number, one for each axis, or {before, behind} for each' },
  groups = { 'integer', default = 1, min = 1, doc = 'channels fall into so many groups' },
}

local function conv2d(x, w, bias, stride, low, high, dilation, groups)
  return x:conv2d(w, { bias = bias, stride = stride, dilation = dilation, groups = groups,
    padding = { low[1], low[2], high[1], high[2] } })
end

-- The depth as part of the batch, and back.
local function slices(x)
  local n, c, d, h, w = unpack(x:size())
  return x:permute(1, 3, 2, 4, 5):reshape(n * d, c, h, w)
end

local function stacked(x, n, depth)
  local _, c, h, w = unpack(x:size())
  return x:reshape(n, depth, c, h, w):permute(1, 3, 2, 4, 5)
end

local function kernel_of(x, w, d, what)
  need(w, what)
  if w.ndim ~= x.ndim then
    blame.raise(('%s: the kernel %s has not as many axes as %s'):format(what, w:describe(),
      x:describe()), 'ESHAPE', what)
  end
  if w.count == 0 then -- without planes the loops over them would make nothing
    blame.raise(('%s: the kernel %s has nothing in it'):format(what, w:describe()), 'ESHAPE', what)
  end
  local k = {}
  for i = 1, d do k[i] = w:size(i + 2) end
  return k
end

-- Sums of convolutions of images, one for each plane of the kernel.
local function conv3d(x, w, k, opts, stride, dilation, low, high)
  local n = x:size(1)
  x = padded(x, { low[1], 0, 0 }, { high[1], 0, 0 })
  local depth = math.floor((x:size(3) - dilation[1] * (k[1] - 1) - 1) / stride[1]) + 1
  if depth < 1 then
    blame.raise(('conv: a kernel of %d planes does not fit into %s'):format(k[1], x:describe()),
      'ESHAPE', 'conv')
  end
  local y
  for i = 1, k[1] do
    local part = slices(x:narrow(3, (i - 1) * dilation[1] + 1, depth, stride[1]))
    local made = conv2d(part, w:select(3, i), i == 1 and opts.bias or nil,
      { stride[2], stride[3] }, { low[2], low[3] }, { high[2], high[3] },
      { dilation[2], dilation[3] }, opts.groups)
    y = y and y + made or made
  end
  return stacked(y, n, depth)
end

docs.conv = 'conv(w, {bias =, stride = 1, padding = 0, dilation = 1, groups = 1}): convolution '
  .. 'over one to three axes'
--- Convolution (cross-correlation) over one, two or three axes; over two it is conv2d.
---@param x Tensor [n x c x 1 to 3 axes]
---@param w Tensor [o x c/groups x as many axes]
---@param opts table|nil {bias = Tensor, stride = 1, padding = 0, dilation = 1, groups = 1}
---@return Tensor
-- >> ridge.ones(1, 1, 5):conv(ridge.ones(1, 1, 3), { padding = 1 })
function methods.conv(x, w, opts, extra)
  if extra ~= nil then surplus('conv', 'w, opts', extra) end
  local d = axes_of(x, 'conv')
  opts = options.check(CONV, opts, 'conv')
  local k = kernel_of(x, w, d, 'conv')
  local stride, dilation = each(opts.stride, d, 'conv', 'stride', 1),
    each(opts.dilation, d, 'conv', 'dilation', 1)
  local low, high = padding(opts.padding, d, 'conv')
  if d == 1 then
    return conv2d(x:unsqueeze(3), w:unsqueeze(3), opts.bias, { 1, stride[1] }, { 0, low[1] },
      { 0, high[1] }, { 1, dilation[1] }, opts.groups):squeeze(3)
  elseif d == 2 then
    return conv2d(x, w, opts.bias, stride, low, high, dilation, opts.groups)
  end
  return conv3d(x, w, k, opts, stride, dilation, low, high)
end

-- -- Transposed convolution ---------------------------------------------------------------------

local TRANSPOSED = { output_padding = { 'number|table', default = 0,
  doc = 'so many more rows and columns behind the last' } }
for name, rule in pairs(CONV) do TRANSPOSED[name] = rule end
TRANSPOSED.padding = { 'number|table', default = 0,
  doc = 'what is cut around: a number, one for each axis, or {before, behind} for each' }

--- Options of transposed convolutions, for checking and for help.
M.TRANSPOSED = TRANSPOSED

local struct_t = ffi.typeof 'rg_conv2d_options'

-- The gradient of conv2d for what it was given.  more: rows and columns behind the last: of what
-- was cut there, then of what no element reaches, which is 0.
local function transposed2d(x, w, stride, low, high, dilation, groups, more)
  local size, rest = {}, {}
  call.settle()
  local struct = struct_t()
  for i = 1, 2 do
    local cut = math.max(0, high[i] - more[i])
    local left = more[i] - (high[i] - cut)
    local reached = math.min(left, stride[i] - 1)
    rest[i] = left - reached
    size[i] = (x:size(i + 2) - 1) * stride[i] - low[i] - cut
      + dilation[i] * (w:size(i + 2) - 1) + 1 + reached
    struct.stride[i - 1], struct.dilation[i - 1] = stride[i], dilation[i]
    struct.pad_low[i - 1], struct.pad_high[i - 1] = low[i], cut
  end
  struct.groups, struct.layout, struct.act = groups, 0, 0
  local f = C.rg_conv2d_back_data
  local st = f(x._t, w._t, size[1], size[2], struct, slot)
  if st ~= 0 then call.again(st, f, x._t, w._t, size[1], size[2], struct, slot) end
  return padded(ref.wrap(slot[0]), { 0, 0 }, rest)
end

local function transposed3d(x, w, k, stride, low, high, dilation, groups, more)
  local n, depth = x:size(1), x:size(3)
  local flat, y = slices(x), nil
  for i = 1, k[1] do
    local made = stacked(transposed2d(flat, w:select(3, i), { stride[2], stride[3] },
      { low[2], low[3] }, { high[2], high[3] }, { dilation[2], dilation[3] }, groups,
      { more[2], more[3] }), n, depth)
    local c, rows, columns = made:size(2), made:size(4), made:size(5)
    -- planes a stride apart
    made = made:reshape(n, c, depth, 1, rows, columns):pad { { 0, stride[1] - 1 }, 0, 0 }
    made = made:reshape(n, c, depth * stride[1], rows, columns)
    local before = (i - 1) * dilation[1]
    made = made:pad { { before, (k[1] - 1) * dilation[1] - before - (stride[1] - 1) }, 0, 0 }
    y = y and y + made or made
  end
  return y:pad { { -low[1], more[1] - high[1] }, 0, 0 }
end

--- Raise unless the options are fit for images.
---@param opts table as M.TRANSPOSED checks them
---@param what string
function M.check(opts, what)
  each(opts.stride, 2, what, 'stride', 1)
  each(opts.dilation, 2, what, 'dilation', 1)
  each(opts.output_padding, 2, what, 'output_padding', 0)
  padding(opts.padding, 2, what)
end

--- The same with checked options.
---@param x Tensor
---@param w Tensor
---@param bias Tensor|nil
---@param opts table as M.TRANSPOSED checks them
---@param what string
---@return Tensor
function M.transposed(x, w, bias, opts, what)
  local d = axes_of(x, what)
  local k = kernel_of(x, w, d, what)
  local stride, dilation = each(opts.stride, d, what, 'stride', 1),
    each(opts.dilation, d, what, 'dilation', 1)
  local more = each(opts.output_padding, d, what, 'output_padding', 0)
  local low, high = padding(opts.padding, d, what)
  local y
  if d == 1 then
    y = transposed2d(x:unsqueeze(3), w:unsqueeze(3), { 1, stride[1] }, { 0, low[1] },
      { 0, high[1] }, { 1, dilation[1] }, opts.groups, { 0, more[1] }):squeeze(3)
  elseif d == 2 then
    y = transposed2d(x, w, stride, low, high, dilation, opts.groups, more)
  else
    y = transposed3d(x, w, k, stride, low, high, dilation, opts.groups, more)
  end
  if bias == nil then return y end
  if need(bias, what).ndim ~= 1 or bias.count ~= y:size(2) then -- else it would broadcast
    blame.raise(('%s: the bias is %s, wanted [%d]'):format(what, bias:describe(), y:size(2)),
      'ESHAPE', what)
  end
  local shape = { 1, bias.count }
  for i = 1, d do shape[i + 2] = 1 end
  return y + bias:reshape(shape)
end

docs.conv_transpose = 'conv_transpose(w, {bias =, stride = 1, padding = 0, output_padding = 0, '
  .. 'dilation = 1, groups = 1}): transposed convolution over one to three axes'
--- Transposed convolution over one, two or three axes: what the gradient of a convolution with the
--- same options does, so that sizes become (size - 1) stride - before - behind + dilation (kernel -
--- 1) + 1 + output_padding.
---@param x Tensor [n x c x 1 to 3 axes]
---@param w Tensor [c x o/groups x as many axes]
---@param opts table|nil {bias = Tensor, stride = 1, padding = 0, output_padding = 0, dilation = 1,
---  groups = 1}
---@return Tensor [n x o x ...]
-- >> ridge.ones(1, 1, 2, 2):conv_transpose(ridge.ones(1, 1, 2, 2), { stride = 2 })
function methods.conv_transpose(x, w, opts, extra)
  if extra ~= nil then surplus('conv_transpose', 'w, opts', extra) end
  need(x, 'conv_transpose')
  need(w, 'conv_transpose')
  opts = options.check(TRANSPOSED, opts, 'conv_transpose')
  return M.transposed(x, w, opts.bias, opts, 'conv_transpose')
end

return M
